"""The local sandbox as a server on another machine: `server` and `messenger` run there, `wire` has the messages of both sides.

The worker's side is in the provider's package (`e2b`). The machine runs this package itself, uploaded by the worker, so both
sides have the same version. A server is needed because the jail's mount namespace and control group live only as long as the
process that holds them, and because a repeated request must not repeat its work.
"""
