"""The client for GitHub: `GitHub` gives a `Repository`, which reads and writes values of our own.

Only `channel.py` knows githubkit. This package knows nothing of attempts, repairs or texts for people. `errors.py` draws how
calls fail.
"""
