"""Whether code under test has left its process as it was; runs inside the sandbox.

Many changes are tried in one process. What one of them leaves behind (a filled cache, a changed table, a thread) would be
there for the next: it is put back where that is easy, else the process is not used any more.
"""

import collections
import os
import sys
import threading
import types

from . import splice

CONTAINERS = (list, dict, set, bytearray, collections.deque)
SMALL = 200  # entries up to which a container's values are compared, not only their number
MANY = 400  # things that are watched


class Keeper(object):
    """Knows how the repository's modules were when it was made. `paths`: the files whose modules are watched."""

    def __init__(self, root, paths):
        self.containers, self.caches, self.spaces = [], [], []
        seen = set()
        for module in list(sys.modules.values()):
            path = splice.inside(root, getattr(module, "__file__", None) or "")
            if path in paths:
                self._add_space(vars(module), seen)
        self.around = self._around()

    def _add_space(self, space, seen):
        """A module's, a class's or an object's own names."""
        if id(space) in seen or len(seen) > MANY:
            return
        seen.add(id(space))
        self.spaces.append((space, list(map(id, space.values()))))
        for name, value in list(space.items()):
            if not name.startswith("__"):  # above all not the builtins
                self._add(value, seen)

    def _add(self, value, seen):
        if id(value) in seen or len(seen) > MANY:
            return
        if isinstance(value, CONTAINERS):
            seen.add(id(value))
            self.containers.append((value, value.copy(), len(value)))
        elif isinstance(value, types.FunctionType):
            for default in (value.__defaults__ or ()) + tuple((value.__kwdefaults__ or {}).values()):
                self._add(default, seen)
        elif callable(getattr(value, "cache_info", None)) and callable(getattr(value, "cache_clear", None)):
            self.caches.append((value, value.cache_info().currsize))
        elif isinstance(value, type):
            if value.__module__ in sys.modules and value.__flags__ & (1 << 9):  # made by a class statement
                self._add_space(value.__dict__, seen)
        elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
            self._add_space(vars(value), seen)

    def _around(self):
        return len(sys.modules), len(os.environ), len(sys.path), threading.active_count()

    def restore(self):
        """Put back what was changed; False where that cannot be done. Costs microseconds."""
        try:
            for space, ids in self.spaces:
                if len(space) != len(ids) or list(map(id, space.values())) != ids:
                    return False
            for cache, size in self.caches:
                if cache.cache_info().currsize != size:
                    if size:
                        return False
                    cache.cache_clear()
            for container, before, size in self.containers:
                if len(container) != size or (size <= SMALL and not _same(container, before)):
                    _refill(container, before)
            return self._around() == self.around
        except Exception:
            return False


def _same(container, before):
    if isinstance(container, dict):
        return list(map(id, container.values())) == list(map(id, before.values()))
    if isinstance(container, (list, collections.deque)):
        return list(map(id, container)) == list(map(id, before))
    return container == before


def _refill(container, before):
    container.clear()
    (container.extend if hasattr(container, "extend") else container.update)(before)
