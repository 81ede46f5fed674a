"""What a runner's command line ends up in: tox, nox, make, just, task, hatch, pdm, poetry, uv, pipenv, poe, taskipy, rye.

The sandbox has no network after its install step, so none of them can make environments of its own. Their files are read, never
executed; `follow.py` is the door, every other file knows one runner. Knows nothing of workflows.
"""
