"""`python guest.pyz NAME`: runs `main()` of the module NAME of this package; a new file is a new subcommand."""

import importlib
import sys


def main() -> int:
    if len(sys.argv) < 2 or not sys.argv[1].isidentifier() or sys.argv[1].startswith("_"):
        sys.stderr.write("usage: python guest.pyz SUBCOMMAND\n")
        return 2
    name = sys.argv.pop(1)
    try:
        module = importlib.import_module((__package__ or "selfheal_guest") + "." + name)
    except ModuleNotFoundError as error:
        sys.stderr.write("no subcommand %r: %s\n" % (name, error))
        return 2
    return int(module.main() or 0)


if __name__ == "__main__":
    sys.exit(main())
