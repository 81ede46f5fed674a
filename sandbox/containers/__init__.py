"""What a sandbox in a container engine (`sandbox.docker`) is made of, from the engine's API up to one install step's place.

`engine` is the API, `recipe` how one command's container is confined, `command` its life, `house` all that one sandbox has in
the engine, `images` what may run, `packing` and `files` the way in and out, `workspace` what works on them,
`place` where packages are installed.
"""
