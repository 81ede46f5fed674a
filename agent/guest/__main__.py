"""`python guest.zip NAME`: runs one subcommand of this package."""

from __future__ import annotations

import importlib
import sys

SUBCOMMANDS = {
    "challenge": "challenge.main",
    "digests": "files.digests",
    "grep": "files.grep",
    "names": "names.main",
    "run": "run.main",
    "search": "search.main",
    "services": "supervise.services.main",
    "trace": "trace.main",
}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in SUBCOMMANDS:
        sys.stderr.write("usage: python guest.zip %s\n" % "|".join(sorted(SUBCOMMANDS)))
        return 2
    module, _, function = SUBCOMMANDS[sys.argv.pop(1)].rpartition(".")
    return int(getattr(importlib.import_module(__package__ + "." + module), function)() or 0)


if __name__ == "__main__":
    sys.exit(main())
