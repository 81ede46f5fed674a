"""Reads the files of runners: tox, nox, make, just, task, hatch, pdm, poetry, uv, pipenv, poe, taskipy, rye.

The sandbox has no network after its install step, so a runner cannot create environments there. Its files are read, never
executed. `dispatch` is the entry point; every other file knows one runner. Knows nothing of workflows.
"""
