"""The context of shown code: the constants, signatures and imports that it uses, and its callers.

Constants are found by name: `LIMIT`, `self.LIMIT` in the class or a base class, `other.LIMIT` of an imported module, and the
constants in their values.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from agent.prompts.passages import Excerpt, Location, Sources
from agent.source.callees import leads, lineage
from agent.source.outline import Constant, Definition, Module
from agent.source.test_files import is_test

LINES, FIRST, WIDTH = 8, 4, 160  # of one constant; the first ones of a longer one; characters of one line
SIGNATURES, CALLERS, CLASSES = 12, 4, 2
NEIGHBOURS = 3  # entries of a registry shown above and below
_NAME = re.compile(r"[^\W\d]\w*")
_OBVIOUS = ("from __future__", "from typing", "import typing")


async def surroundings(code: Sequence[Location], lines: Mapping[str, set[int]], sources: Sources) -> list[Excerpt]:
    """One excerpt per module of `code`, most important first; then the callers of the first functions.

    `lines` are already shown, by path.
    """
    await _read_used(code, sources)
    modules = [module for module in sources.read() if not is_test(module.path)]
    shown = {(place.module.path, place.name) for place in code}
    out = []
    for module in dict.fromkeys(place.module for place in code):
        here = [place.definition for place in code if place.module is module and place.definition]
        constants = [one for one in _constants(module, here, modules) if one[1].first not in lines.get(one[0].path, ())]
        shown_lines = [
            *dict.fromkeys(_value(*one) + ("" if one[0] is module else f"  # in {one[0].path}") for one in constants),
            *_signatures(module, here, modules, shown),
            *(line for line in module.imported(_names(here)) if module is not code[0].module and not line.startswith(_OBVIOUS)),
        ]
        if shown_lines:
            out.append(Excerpt(module.path, f"What the shown code of {module.path} uses", "\n".join(shown_lines)))
    for place in [place for place in code if place.definition][:2]:
        if called := _callers(place, modules, lines):
            out.append(Excerpt(place.module.path, f"Who calls `{place.name}`", "\n".join(called)))
    return [*_registries(code, modules, lines), *out]


async def _read_used(code: Sequence[Location], sources: Sources) -> None:
    for module in dict.fromkeys(place.module for place in code):
        names = _names([place.definition for place in code if place.module is module and place.definition])
        for name, part in module.imports():
            if part in names:
                await sources.of_module(f"{name}.{part}".lstrip(".")) or await sources.of_module(name)
            elif not part and name.partition(".")[0] in names:
                await sources.of_module(name)


def _names(definitions: Sequence[Definition]) -> frozenset[str]:
    return frozenset(node.id for definition in definitions for node in ast.walk(definition.node) if isinstance(node, ast.Name))


def _constants(module: Module, definitions: Sequence[Definition], modules: Sequence[Module]) -> list[tuple[Module, Constant]]:
    """The constants that functions use, in order, each followed by those in its value."""
    found: dict[tuple[str, str], tuple[Module, Constant]] = {}
    for definition in definitions:
        owner = definition.name.rpartition(".")[0]
        for node in ast.walk(definition.node):
            for home, constant in _referenced(node, module, owner, modules):
                found.setdefault((home.path, constant.name), (home, constant))
                inner = constant.name.rpartition(".")[0]
                for part in ast.walk(constant.value) if constant.value else ():
                    for deeper in _referenced(part, home, inner, modules):
                        found.setdefault((deeper[0].path, deeper[1].name), deeper)
    return list(found.values())


def _referenced(node: ast.AST, module: Module, owner: str, modules: Sequence[Module]) -> Iterator[tuple[Module, Constant]]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        homes = [other for name, part in module.imports() if part == node.id for other in modules if _is(other, name)]
        yield from _first((home, node.id) for home in (module, *homes))
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner_name = node.value.id
        if owner_name in ("self", "cls"):
            yield from _first((home, f"{name}.{node.attr}") for home, name in lineage(owner, module, modules))
        else:
            parts = {f"{name}.{part}".strip(".") for name, part in module.imports() if owner_name in (part or name)}
            yield from _first([(module, f"{owner_name}.{node.attr}"), *((o, node.attr) for o in modules if _is(o, *parts))])


def _first(asked: Iterator[tuple[Module, str]] | Sequence[tuple[Module, str]]) -> Iterator[tuple[Module, Constant]]:
    for home, name in asked:
        for constant in home.constants:
            if constant.name == name:
                yield home, constant
                return


def _is(module: Module, *names: str) -> bool:
    stem = module.path.removesuffix(".py").removesuffix("/__init__")
    return any(name and (stem == (path := name.replace(".", "/")) or stem.endswith(f"/{path}")) for name in names)


def _value(module: Module, constant: Constant) -> str:
    """The constant verbatim, since a change may have to replace it; of a long one, which is data, the beginning."""
    lines = module.lines[constant.first - 1 : constant.last]
    more = [f"    … ({len(lines) - FIRST} more lines)"] if len(lines) > LINES else []
    first = lines[:FIRST] if more else lines
    return "\n".join([line if len(line) <= WIDTH else line[:WIDTH] + " …" for line in first] + more)


def _signatures(
    module: Module, definitions: Sequence[Definition], modules: Sequence[Module], shown: set[tuple[str, str]]
) -> list[str]:
    found = {}
    for definition in definitions:
        for home, called in leads(module, definition, modules):
            if (home.path, called.name) not in shown:
                where = [called.name] if "." in called.name else []
                where += [f"in {home.path}"] if home is not module else []
                found[home.path, called.name] = called.signature + (f"  # {', '.join(where)}" if where else "")
    return list(found.values())[:SIGNATURES]


def _callers(place: Location, modules: Sequence[Module], lines: Mapping[str, set[int]]) -> list[str]:
    """Lines that call the function, except in tests and in code that is shown."""
    owner, _, own = place.name.rpartition(".")
    called = owner.rpartition(".")[2] if own == "__init__" else own
    if called.startswith("__") or not called:
        return []
    found = [
        f"{module.path}:{line}: {module.lines[line - 1].strip()[:WIDTH]}"
        for module in modules
        for line in module.calls(called)
        if line not in lines.get(module.path, ())
    ]
    return found[:CALLERS]


def _registries(code: Sequence[Location], modules: Sequence[Module], lines: Mapping[str, set[int]]) -> list[Excerpt]:
    """The code that registers the first registered class: the neighbouring entries, and their constants."""
    owners = dict.fromkeys((place.module, place.name.rpartition(".")[0]) for place in code if "." in place.name)
    for _, owner in list(owners)[:CLASSES]:
        for module in modules:
            for line in module.calls(owner.rpartition(".")[2])[:1]:
                entries = _entries(module, line)
                if len(entries) > 1 and line not in lines.get(module.path, ()):
                    names = {name for at in entries for name in _NAME.findall(module.lines[at - 1])}
                    values = [_value(module, each) for each in module.constants if each.name in names]
                    text = "\n".join([*values, "…", *(module.lines[at - 1].strip()[:WIDTH] for at in entries)])
                    title = f"{module.path}, lines {entries[0]}-{entries[-1]} (registers `{owner}`) and their constants"
                    return [Excerpt(module.path, title, text)]
    return []


def _entries(module: Module, line: int) -> list[int]:
    """The lines around `line` that start the same way, such as `registry.register(`."""
    begin = module.lines[line - 1].partition("(")[0].strip()
    if "." not in begin or "=" in begin:
        return []
    first, last = line, line
    while line - first < NEIGHBOURS and first > 1 and module.lines[first - 2].strip().startswith(f"{begin}("):
        first -= 1
    while last - line < NEIGHBOURS and last < len(module.lines) and module.lines[last].strip().startswith(f"{begin}("):
        last += 1
    return list(range(first, last + 1))
