"""What runs inside the sandbox: tries, for real and one after the other, what the sandbox says nobody can do.

Standard library only, old Pythons (3.8) too, sent in as one zipapp; nothing of the house outside this folder may be imported.
Each attack gets what was planted outside (`sandbox.proof.canaries`) and returns whether the sandbox held (None: it could not be
tried) and what was seen. Nothing that succeeds does harm: files that it makes are removed again, no process but its own
children is ever ended, and nothing is mounted.
"""
