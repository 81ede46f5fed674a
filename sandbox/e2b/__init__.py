"""E2B: a virtual machine per attempt, in the cloud, with the local sandbox inside (`sandbox.remote`).

`machine.py` alone speaks to the SDK; `errors.py` says what its exceptions mean; `admission.py` keeps to the plan's limits;
`orphans.py` finds what dead workers left; `network.py` closes the way out and sees that it is closed.
"""
