"""`selfheal doctor`: checks everything that the service needs on this machine, and suggests fixes.

Each module checks one area and yields `checks.Check` values; `runner` runs the areas concurrently, `report` prints the checks.
Nothing is changed: no migration runs, no key or file is left behind. Only a missing data folder is created.
"""
