"""The client for GitHub: `GitHub.repository` returns a `Repository`, which reads and writes the values in `types.py`.

Only `channel.py` knows githubkit. This package knows nothing of attempts, repairs or texts for people. `errors.py` defines the
exceptions that calls raise.
"""
