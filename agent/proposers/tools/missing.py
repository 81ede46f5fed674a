"""What failures report as missing (a name, an attribute of a module, an imported name, a module), and where it may come from.

Knows the messages of Python, linters and type checkers, and the guest's findings (the repository's imports and definitions, the
installed packages); runs nothing. Both are hostile data: only names are taken from them, and options are only tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from agent.contract.verdicts import Failure
from agent.proposers.tools import imports
from agent.proposers.tools.imports import Import, read_import
from agent.source.test_files import is_test

MOST = 8  # options per missing thing
# Conventional aliases of modules; tried only if the module is installed.
_ALIASES = {
    "np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "mpl": "matplotlib", "sns": "seaborn", "tf": "tensorflow",
    "nx": "networkx", "sp": "scipy", "sa": "sqlalchemy", "pl": "polars", "xr": "xarray", "jnp": "jax.numpy",
    "npt": "numpy.typing", "ET": "xml.etree.ElementTree", "dt": "datetime", "mp": "multiprocessing", "gpd": "geopandas",
}  # fmt: skip
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

Kind = Literal["name", "import", "attribute", "module"]


@dataclass(frozen=True, slots=True)
class Missing:
    """`name` of `module` (either can be ""), needed by a line of the repository."""

    kind: Kind
    name: str
    module: str
    path: str
    line: int
    circular: bool = False

    @property
    def label(self) -> str:
        """Shown to people: "`json`", "`Mapping` of `collections`"."""
        return f"`{self.name}` of `{self.module}`" if self.name and self.module else f"`{self.name or self.module}`"


_NAME, _MODULE = r"(?P<name>[^\W\d]\w*)", r"(?P<module>[^\W\d][\w.]*)"
_MESSAGES: tuple[tuple[Kind, str], ...] = (
    ("name", rf"NameError: (?:free variable |global name |name )?'{_NAME}' is not defined"),
    ("name", rf"\bF821:? [Uu]ndefined name [`']{_NAME}[`']"),
    ("name", rf"\bundefined name '{_NAME}'"),
    ("name", rf"\bE0602: Undefined variable '{_NAME}'"),
    ("name", rf'\bName "{_NAME}" is not defined'),
    ("name", rf'error: "{_NAME}" is not defined'),
    ("import", rf"cannot import name '{_NAME}' from (?P<circular>partially initialized module )?'{_MODULE}'"),
    ("import", rf"\bE0611: No name '{_NAME}' in module '{_MODULE}'"),
    ("import", rf'\bModule "{_MODULE}" has no attribute "{_NAME}"'),
    ("attribute", rf"AttributeError: (?P<circular>partially initialized )?module '{_MODULE}' has no attribute '{_NAME}'"),
    ("module", rf"No module named '{_MODULE}'"),
    ("module", rf"\bE0401: Unable to import '{_MODULE}'"),
    ("module", rf'library stub for module named "{_MODULE}"'),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _MESSAGES)


def read_missing(failures: Iterable[Failure]) -> tuple[Missing, ...]:
    """Each missing thing once per file, in the order of the failures. Failures outside the repository are left out."""
    found: dict[tuple[str, str, str, str], Missing] = {}
    for failure in failures:
        if not failure.frames:
            continue
        frame = failure.frames[-1]
        # The last error of an exception chain is the one that was raised.
        text = f"{failure.details}\n{failure.message}"
        for kind, pattern in _PATTERNS:
            matches = list(pattern.finditer(text))
            if matches:
                parts = matches[-1].groupdict()
                name, module = parts.get("name") or "", parts.get("module") or ""
                missing = Missing(kind, name, module, frame.path, frame.line, bool(parts.get("circular")))
                found.setdefault((kind, name, module, frame.path), missing)
                break
    return tuple(found.values())


class KnownNames(msgspec.Struct):
    """The answer of the guest's `names`."""

    imports: dict[str, list[tuple[int, str]]] = {}  # name → (count, import statement)
    defined: dict[str, list[tuple[str, str]]] = {}  # name → (module, path) in the repository
    paths: dict[str, str] = {}  # module → path, in the repository
    standard: dict[str, list[str]] = {}  # name → modules of the standard library
    installed: dict[str, list[str]] = {}  # name → modules of the packages in the request
    modules: dict[str, str] = {}  # module → "standard", "installed", ""
    distributions: dict[str, list[str]] = {}  # top module → distributions

    @property
    def own(self) -> frozenset[str]:
        """Top-level names of the repository's modules."""
        return frozenset(module.partition(".")[0] for module in self.paths)

    def module_of(self, path: str) -> str:
        return next((module for module, other in self.paths.items() if other == path), "")


@dataclass(frozen=True, slots=True)
class Option:
    """One change to one file: its title and the file's new text."""

    title: str
    path: str
    text: str


def read_known(output: bytes) -> KnownNames:
    """Empty if the output is no valid answer."""
    try:
        return msgspec.json.decode(output, type=KnownNames)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return KnownNames()


def question(missing: Iterable[Missing], texts: Mapping[str, str]) -> dict[str, object]:
    """The request to the guest's `names`. `texts` holds the files that need the missing things, by path."""
    names: dict[str, list[str]] = {}
    modules: list[str] = list(_ALIASES.values())
    for one in missing:
        text = texts.get(one.path, "")
        if one.kind == "module":
            names |= {name: [] for name in imports.names_taken(text, one.line, one.module)}
            modules += [one.module, one.module.lower()]
        else:
            names[one.name] = list(imports.attributes(text, one.name)) if one.kind == "name" else []
        if one.kind in ("import", "attribute"):
            modules.append(one.module)
        if one.kind == "attribute":
            modules += _submodules(text, one)
    return {"names": list(names), "uses": names, "modules": list(dict.fromkeys(modules))}


def options(one: Missing, known: KnownNames, texts: Mapping[str, str], *, tests_too: bool) -> list[Option]:
    """Changes that could restore a missing thing. `texts` also holds the repository's modules that could re-export it."""
    made = {"name": _for_name, "import": _for_import, "attribute": _for_attribute, "module": _for_module}[one.kind]
    found: dict[tuple[str, str], Option] = {}
    for option in made(one, known, texts):
        if option.text != texts.get(option.path) and (tests_too or not is_test(option.path)):
            found.setdefault((option.path, option.text), option)
    return list(found.values())[:MOST]


def reexports(one: Missing, known: KnownNames) -> str | None:
    """The repository's file that could re-export the name."""
    return known.paths.get(one.module) if one.kind in ("import", "attribute") else None


def _for_name(one: Missing, known: KnownNames, texts: Mapping[str, str]) -> Iterator[Option]:
    source = texts.get(one.path, "")
    here = known.module_of(one.path)
    wanted = [made for _, text in known.imports.get(one.name, []) if (made := read_import(text)) is not None]
    wanted = [made for made in wanted if not _is_tests(made, known) or is_test(one.path)]
    wanted += [Import(module, one.name) for module, path in known.defined.get(one.name, []) if not is_test(path)]
    # A class with the attributes in use (`datetime.now`) comes before the module of that name (`datetime.timedelta`).
    wanted += [Import(module, one.name) for module in known.standard.get(one.name, [])[:4] if _DOTTED.fullmatch(module)]
    if known.modules.get(one.name):
        wanted.append(Import(one.name))
    if (alias := _ALIASES.get(one.name)) is not None and known.modules.get(alias):
        wanted.append(Import(alias, alias=one.name))
    for made in dict.fromkeys(wanted):
        if made.module != here and (text := imports.add(source, _styled(made, here, source), known.own)) is not None:
            how = f" ({made.text})" if made.text != f"import {one.name}" else ""
            yield Option(f"imports `{one.name}`{how} in {one.path}", one.path, text)


def _for_import(one: Missing, known: KnownNames, texts: Mapping[str, str]) -> Iterator[Option]:
    source, here = texts.get(one.path, ""), known.module_of(one.path)
    if one.circular:
        text = imports.make_local(source, one.line, one.module, one.name)
        if text is not None:
            yield Option(f"imports {one.label} where it is used, which breaks an import cycle, in {one.path}", one.path, text)
        return
    homes = _homes(one, known)
    for module in homes:
        text = imports.redirect(source, one.line, one.module, one.name, _styled(Import(module, one.name), here, source))
        if text is not None:
            yield Option(f"imports `{one.name}` from its new location `{module}` in {one.path}", one.path, text)
    yield from _reexported(one, known, texts, homes)


def _for_attribute(one: Missing, known: KnownNames, texts: Mapping[str, str]) -> Iterator[Option]:
    source = texts.get(one.path, "")
    for module in _submodules(source, one):
        if known.modules.get(module) and (text := imports.add(source, Import(module), known.own)) is not None:
            yield Option(f"imports `{module}` in {one.path}", one.path, text)
    homes = _homes(one, known)
    for module in homes:
        if (text := imports.replace_attribute(source, one.module, one.name, module, known.own)) is not None:
            yield Option(f"`{one.module}.{one.name}` becomes `{module}.{one.name}` in {one.path}", one.path, text)
    yield from _reexported(one, known, texts, homes)


def _for_module(one: Missing, known: KnownNames, texts: Mapping[str, str]) -> Iterator[Option]:
    source, here = texts.get(one.path, ""), known.module_of(one.path)
    last = one.module.rpartition(".")[2]
    moved = [module for module, path in known.paths.items() if module.rpartition(".")[2] == last and not is_test(path)]
    taken = imports.names_taken(source, one.line, one.module)
    homes = [set(known.standard.get(name, [])) for name in taken]
    offered = sorted(set.intersection(*homes), key=lambda m: (last.lower() not in m.lower(), len(m))) if homes else []
    lower = [one.module.lower()] if known.modules.get(one.module.lower()) else []
    for module in [*_nearest(one.module, moved), *lower, *offered]:
        if module in (one.module, here) or not _DOTTED.fullmatch(module):
            continue
        if (text := imports.rename_module(source, one.module, module)) is not None:
            yield Option(f"imports `{module}` instead of `{one.module}` in {one.path}", one.path, text)


def _homes(one: Missing, known: KnownNames) -> list[str]:
    """Modules that define the name: the repository's own or the installed ones; those of the same top-level package first."""
    top = one.module.partition(".")[0]
    if top in known.own:
        found = [module for module, path in known.defined.get(one.name, []) if not is_test(path)]
    else:
        found = [*known.standard.get(one.name, []), *known.installed.get(one.name, [])]
    family = [module for module in found if module.partition(".")[0] == top]
    return [m for m in dict.fromkeys([*family, *found]) if m != one.module and _DOTTED.fullmatch(m)]


def _reexported(one: Missing, known: KnownNames, texts: Mapping[str, str], homes: list[str]) -> Iterator[Option]:
    """Re-exports the name from the module that had it, for code that still imports it from there."""
    path = reexports(one, known)
    if path is None or path not in texts:
        return
    for module in homes:
        made = _styled(Import(module, one.name), one.module, texts[path])
        # Written as `name as name`, which linters treat as an intended re-export.
        text = imports.add(texts[path], Import(made.module, made.name, made.name), known.own)
        if text is not None:
            yield Option(f"re-exports `{one.name}` from `{module}` in `{one.module}` ({path})", path, text)


def _styled(made: Import, here: str, source: str) -> Import:
    """The import, made relative if the file imports its siblings that way."""
    package, _, last = made.module.rpartition(".")
    is_sibling = made.name and package and package == here.rpartition(".")[0]
    return Import(f".{last}", made.name, made.alias) if is_sibling and imports.is_relative(source) else made


def _submodules(source: str, one: Missing) -> list[str]:
    """The dotted names under the module in the source, longest first: `xml.etree.ElementTree`, `xml.etree`."""
    start = f"{one.module}.{one.name}"
    found = [f"{start}.{attribute}" for attribute in imports.attributes(source, start)]
    return [*found, start]


def _nearest(module: str, others: list[str]) -> list[str]:
    """The other modules, those that share the most name parts first."""
    parts = module.split(".")
    return sorted(others, key=lambda other: (-len(set(parts) & set(other.split("."))), len(other), other))[:MOST]


def _is_tests(made: Import, known: KnownNames) -> bool:
    path = known.paths.get(made.module, "")
    return bool(path) and is_test(path)
