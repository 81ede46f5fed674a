"""`python -m app` is `selfheal`."""

from app.cli.main import main

main()
