"""Runs inside the sandbox and really attempts, one after the other, what the sandbox promises to prevent.

Standard library only, Python 3.8 and later, sent in as one zipapp; imports nothing of the project outside this folder. Each
attack gets what was planted outside (`sandbox.proof.canaries`) and returns whether the sandbox held (None: it could not be
tried) and what was seen. A successful attack does no harm: files that it creates are removed, only its own children are ever
killed, and nothing is mounted.
"""
