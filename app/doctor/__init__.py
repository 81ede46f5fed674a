"""`selfheal doctor`: looks at everything that the service needs, on this very machine, and says how to mend what is not right.

Each room of it looks at one thing and yields values (`checks.Check`); `examine` runs them side by side, `report` shows them.
Nothing of the service is changed: no migration is made, no key and no file stays; the data folder is made where there is none.
"""
