"""Routes of requests."""

import idna


def host(name: str) -> str:
    """The name of a host in ASCII.

    >>> host("bücher.example")
    'xn--bcher-kva.example'
    """
    return idna.encode(name).decode()


def join(*parts: str) -> str:
    """Parts of a path, with one slash between each.

    >>> join("a", "b")
    '/a/b'
    >>> join("a", "", "b")
    '/a/b'
    """
    return "/" + "/".join(parts)
