"""Runs inside the sandbox next to hostile code: standard library only, Python 3.8 and later, shipped as one zipapp.

Each module is a subcommand of `python guest.zip NAME` or part of one, and imports nothing of Selfheal outside this folder.
Inside the zipapp the package is called `selfheal_guest`, a name that no module of a repository has.
"""

NAME = __name__
