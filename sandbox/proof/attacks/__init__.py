"""Runs inside the sandbox and really attempts, one after the other, what the sandbox promises to prevent.

Uses only the standard library of Python 3.8 and later and nothing of the project outside this folder; sent in as one zipapp.
Each attack gets a description of the canaries outside (`sandbox.proof.canaries`). It returns whether the sandbox held (None:
not tested), and what the attack saw. A successful attack does no harm: it removes the files that it creates, kills only its own
children, and mounts nothing.
"""
