"""Parts of the container sandbox (`sandbox.docker`).

`engine` wraps the engine's API; `spec` describes one command's container and `command` runs it; `resources` owns everything
one sandbox has in the engine; `images` checks images; `tars` and `files` move files in and out; `workspace` puts these
together; `install_backend` runs the installer.
"""
