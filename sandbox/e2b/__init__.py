"""E2B: one virtual machine per attempt, in the cloud, with the local sandbox inside (`sandbox.remote`).

`plan` holds the operator's options; `account` creates machines within the plan's limits and removes those of dead workers;
`machine` controls one machine and its network; `errors` classifies the SDK's exceptions; `client` sends requests to the
machine's server; `sandbox` implements one sandbox with these requests, and `sandboxes` opens it.
"""
