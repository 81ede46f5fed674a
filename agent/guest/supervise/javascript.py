"""How tests that Node runs are observed: what is preloaded there (`node_*`) written out, and the variable that names it.

Node cannot read a zipapp. Knows nothing of what the files tell.
"""

import os
import pkgutil

VARIABLE = "NODE_OPTIONS"
_HOOK = "node_hook.cjs"
_FILES = (_HOOK, "node_telling.cjs", "node_test.mjs", "node_vitest.mjs", "node_jest.cjs", "node_mocha.cjs")


def install(folder):
    """Write the files below `folder`; returns the path of the one to be preloaded."""
    there = os.path.join(folder, "node")
    os.mkdir(there)
    for name in _FILES:
        with open(os.path.join(there, name), "wb") as file:
            file.write(pkgutil.get_data(__package__, name))
    return os.path.join(there, _HOOK)


def options(hook, others):
    """What VARIABLE is to hold, with what it held before: ours first, as others may load code of the repository."""
    return " ".join(filter(None, ["--require=" + hook, others]))
