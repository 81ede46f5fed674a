"""The local sandbox in another machine: this side asks (`asking`), the other serves (`serving`), both speak `wire`.

Knows how to put questions to a machine that can run a command and take files; which machine, and how it is had, is the
business of the rooms that use it. What runs over there is this very package (`bundle`), so both sides are of one version.
"""
