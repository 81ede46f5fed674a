"""The command line of the shop."""

import sys

from core import total


def main(argv):
    if not argv:
        return 2
    print(total([int(price) for price in argv], discount=10))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
