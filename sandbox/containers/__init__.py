"""Parts of the container sandbox (`sandbox.docker`).

`engine` wraps the engine's API; `command` describes one command's container and runs it; `resources` owns everything one
sandbox has in the engine; `images` checks images; `files` moves files in and out as tars; `workspace` puts these together.
"""
