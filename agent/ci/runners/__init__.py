"""Follows runners to the commands they run: tox, nox, make, just, task, hatch, pdm, poetry, uv, pipenv, poe, taskipy, rye.

The sandbox has no network after its install step, so a runner cannot create environments there. Its files are read as data;
only nox and make, whose files are programs, are asked in the sandbox (`agent.ci.project.asking`). Knows nothing of workflows.
"""
