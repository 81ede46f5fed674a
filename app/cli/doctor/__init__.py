"""`selfheal doctor`: checks everything that the service needs on this machine, and suggests fixes.

`checks` and `github` yield `Check` values, area by area; `report` runs the areas concurrently and prints the checks. Nothing is
changed: no migration runs, and no key or file is left behind. Only a missing data folder is created.
"""
