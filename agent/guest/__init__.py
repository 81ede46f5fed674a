"""What runs inside the sandbox, beside hostile code: standard library only, old Pythons (3.8) too, shipped as one zipapp.

Each module is a subcommand of `python guest.pyz NAME` or a part of one. Nothing of the house outside this folder may be
imported.
Inside the zipapp the package is called `selfheal_guest`, so that on a module path it hides no module of a repository.
"""
