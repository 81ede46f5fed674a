"""E2B: a virtual machine per attempt, in the cloud, with the local sandbox inside (`sandbox.remote`).

`plan.py` is what the operator says; `account.py` and `machine.py` speak to the SDK, whose exceptions `errors.py` explains;
`admission.py` keeps to the plan's limits; `orphans.py` finds what dead workers left; `network.py` closes the way out and sees
that it is closed.
"""
