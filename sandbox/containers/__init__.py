"""Parts of the container sandbox (`sandbox.docker`).

`engine` wraps the engine's API; `command` describes and runs one command's container; `resources` owns everything that one
sandbox has in the engine; `images` checks images; `files` moves files in and out as tars; `workspace` combines these parts.
"""
