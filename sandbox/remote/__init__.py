"""The local sandbox on another machine: `client` here, `server` there, `wire` for their messages.

Works with any `Machine` that runs commands and takes files; rooms such as `e2b` provide one. The other side runs this package
itself (`code_bundle`), so both sides have the same version. A server is needed because the jail's mount namespace and control
group live as long as the process that holds them, and because a repeated request must not repeat its work.
"""
