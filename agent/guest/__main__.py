"""`python guest.pyz NAME`: runs `main()` of one module of this package."""

from __future__ import annotations

import importlib
import sys

SUBCOMMANDS = {
    "challenge": "challenge",
    "digests": "digests",
    "grep": "grep",
    "names": "names",
    "run": "run",
    "search": "search",
    "services": "supervise.services",
    "trace": "trace",
}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in SUBCOMMANDS:
        sys.stderr.write("usage: python guest.pyz %s\n" % "|".join(sorted(SUBCOMMANDS)))
        return 2
    module = importlib.import_module(__package__ + "." + SUBCOMMANDS[sys.argv.pop(1)])
    return int(module.main() or 0)


if __name__ == "__main__":
    sys.exit(main())
