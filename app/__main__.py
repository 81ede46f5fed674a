"""`python -m app` is `selfheal`."""

from app.cli import main

main()
