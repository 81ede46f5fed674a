"""E2B: one virtual machine per attempt, in the cloud, with the local sandbox inside (`sandbox.remote`).

`plan` holds the operator's options; `account` and `machine` use the SDK, and `errors` classifies its exceptions; `admission`
keeps to the plan's limits; `orphans` removes machines of dead workers; `network` closes the machine's network and checks it;
`client` sends requests to the machine's server, and `sandbox` makes the sandbox of them.
"""
