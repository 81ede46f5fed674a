"""Restores what code under test changed in its process.

Many changes are tried in one process. What one of them leaves behind (a filled cache, a changed table, a thread) would affect
the next: it is restored where that is easy, else the process is given up.
"""

from __future__ import annotations

import collections
import os
import sys
import threading
import types

from . import hot_swap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

CONTAINERS = (list, dict, set, bytearray, collections.deque)
SMALL = 200  # entries up to which a container's values are compared, not only their number
MANY = 400  # objects that are tracked


class ProcessState:
    """The repository's modules as they were when this was made. `paths`: the files whose modules are tracked."""

    def __init__(self, root: str, paths: Collection[str | None]) -> None:
        self.containers: list[tuple[Any, Any, int]] = []
        self.caches: list[tuple[Any, int]] = []
        self.spaces: list[tuple[Mapping[str, Any], list[int]]] = []
        seen: set[int] = set()
        for module in list(sys.modules.values()):
            if hot_swap.repository_path(root, getattr(module, "__file__", None) or "") in paths:
                self._add_space(vars(module), seen)
        self.global_state = self._global_state()

    def _add_space(self, space: Mapping[str, Any], seen: set[int]) -> None:
        """Track a module's, a class's or an object's own names."""
        if id(space) in seen or len(seen) > MANY:
            return
        seen.add(id(space))
        self.spaces.append((space, list(map(id, space.values()))))
        for name, value in list(space.items()):
            if not name.startswith("__"):  # above all not the builtins
                self._add(value, seen)

    def _add(self, value: Any, seen: set[int]) -> None:
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

    def _global_state(self) -> tuple[int, int, int, int]:
        return len(sys.modules), len(os.environ), len(sys.path), threading.active_count()

    def restore(self) -> bool:
        """Restore what was changed; False where that is impossible. Costs microseconds."""
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
            return self._global_state() == self.global_state
        except Exception:
            return False


def _same(container: Any, before: Any) -> bool:
    if isinstance(container, dict):
        return list(map(id, container.values())) == list(map(id, before.values()))
    if isinstance(container, (list, collections.deque)):
        return list(map(id, container)) == list(map(id, before))
    return bool(container == before)


def _refill(container: Any, before: Any) -> None:
    container.clear()
    (container.extend if hasattr(container, "extend") else container.update)(before)
