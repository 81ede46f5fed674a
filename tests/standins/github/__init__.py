"""A local GitHub for tests and the demo: real sockets, real git, workflows that really run."""

from tests.standins.github.driver import GitHub, Violations

__all__ = ["GitHub", "Violations"]
