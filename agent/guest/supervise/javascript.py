"""Has Node preload our hook (`node_*` files): writes the files out, as Node cannot read a zipapp, and sets the variable."""

from __future__ import annotations

import os
import pkgutil

from .. import NAME

VARIABLE = "NODE_OPTIONS"
_HOOK = "node_hook.cjs"
_FILES = (_HOOK, "node_sender.cjs", "node_test.mjs", "node_vitest.mjs", "node_jest.cjs", "node_mocha.cjs")


def install(folder: str) -> str:
    """Write the files below `folder`; returns the path of the one to preload."""
    there = os.path.join(folder, "node")
    os.mkdir(there)
    for name in _FILES:
        with open(os.path.join(there, name), "wb") as file:
            file.write(pkgutil.get_data(NAME, name) or b"")
    return os.path.join(there, _HOOK)


def options(hook: str, others: str | None) -> str:
    """The value of VARIABLE with its former value `others`; ours comes first, as others may load code of the repository."""
    return " ".join(filter(None, ["--require=" + hook, others]))
