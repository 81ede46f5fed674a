"""Code locations that a prompt may show, and their modules, each read once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent.edits.changes import read_text
from agent.source.outline import Definition, Module
from sandbox.base import Workspace

MARGIN = 15  # lines shown around a location outside of functions, or in a long one
CLASS = 40  # classes up to this many lines are shown whole


@dataclass(frozen=True, slots=True)
class Location:
    """Lines of a module, both ends included."""

    module: Module
    first: int
    last: int
    why: str
    definition: Definition | None = None
    lines: tuple[int, ...] = ()  # suspicious lines, shown if the whole does not fit
    constant: str = ""  # qualified name of a constant

    @property
    def name(self) -> str:
        return self.definition.name if self.definition else self.constant


class Sources:
    """The repository's modules, each read once."""

    def __init__(self, base: Workspace) -> None:
        self._base = base
        self._known: dict[str, Module | None] = {}
        self._paths: frozenset[str] | None = None

    async def get(self, path: str) -> Module | None:
        if path not in self._known:
            text = await read_text(self._base, path)
            self._known[path] = await asyncio.to_thread(Module, path, text) if isinstance(text, str) else None
        return self._known[path]

    async def of_module(self, name: str) -> Module | None:
        """By its dotted name."""
        paths = await self.paths()
        stem = name.replace(".", "/")
        for root in ("", "src/", "lib/"):
            for end in (".py", "/__init__.py"):
                if (path := f"{root}{stem}{end}") in paths:
                    return await self.get(path)
        return None

    async def paths(self) -> frozenset[str]:
        """Every file of the repository."""
        if self._paths is None:
            self._paths = frozenset(entry.path for entry in await self._base.files())
        return self._paths

    async def find(self, name: str, why: str) -> Location | None:
        """The location of "path::Class.method", "path::CONSTANT" or "path:line"; None if there is none."""
        path, _, name = name.partition("::") if "::" in name else name.partition(":")
        module = await self.get(path)
        if module is None:
            return None
        if name.isdecimal():
            line = int(name)
            return widened(module, (line,), module.around(line), why) if 0 < line <= len(module.lines) else None
        name = name.replace("::", ".").removesuffix("()")
        if (definition := module.named(name)) is not None:
            return widened(module, (definition.first,), definition, why)
        constant = next((each for each in module.constants if name in (each.name, each.name.rpartition(".")[2])), None)
        return Location(module, constant.first, constant.last, why, constant=constant.name) if constant else None

    def read(self) -> list[Module]:
        return [module for module in self._known.values() if module is not None]


def widened(module: Module, lines: tuple[int, ...], definition: Definition | None, why: str) -> Location:
    """The whole function, else some lines around, without the module's head (licence, docstring)."""
    if definition is not None and (not definition.is_class or definition.last - definition.first < CLASS):
        return Location(module, definition.first, definition.last, why, definition, lines)
    line = min(lines)
    begins = min(line, module.begins)
    return Location(module, max(begins, line - MARGIN), min(len(module.lines), line + MARGIN), why, None, lines)
