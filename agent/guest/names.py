"""`python guest.zip names`: finds where names can be imported from (repository, standard library, installed modules).

Reads a JSON request `{root, names, modules, uses}` from stdin and writes one JSON object. Code of the repository is parsed,
never imported. Only modules of the standard library are imported, to see what they define.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import json
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

FILES, LARGEST = 4000, 524288  # files of the repository, and bytes of one
MOST = 40  # answers per name
_LEFT_OUT = ("node_modules", "__pycache__", "venv", "site-packages", "build", "dist")
# Modules that have side effects on import, or are of no use here.
_NOT_IMPORTED = frozenset("antigravity this test idlelib turtledemo turtle lib2to3 tkinter ensurepip distutils".split())


def main() -> int:
    request = json.loads(sys.stdin.read())
    root, names = request["root"], [str(name) for name in request["names"]]
    uses = {str(name): [str(u) for u in used] for name, used in request["uses"].items()}
    modules = [str(module) for module in request["modules"]]
    out = sys.stdout
    sys.stdout = sys.stderr = io.StringIO()
    answer = repository(root, names)
    answer["standard"] = {name: standard(name, uses.get(name, [])) for name in names}
    answer["installed"] = {name: installed(name, modules) for name in names}
    answer["modules"] = {module: kind(module) for module in dict.fromkeys(modules + names)}
    answer["distributions"] = distributions(modules + names)
    out.write(json.dumps(answer))
    out.flush()
    return 0


# The repository


def repository(root: str, names: Sequence[str]) -> dict[str, Any]:
    """What the repository's files import and define under these names, and its modules with their paths."""
    imports: dict[str, dict[str, int]] = {}
    defined: dict[str, list[list[str]]] = {name: [] for name in names}
    modules: dict[str, str] = {}
    pattern = re.compile(r"\b(?:%s)\b" % "|".join(re.escape(name) for name in names)) if names else None
    for path in _sources(root):
        module = _module(root, path)
        modules[module] = path
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                text = file.read(LARGEST)
            if pattern is None or not pattern.search(text):
                continue
            tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        for statement, bound in _imports(tree, module, path):
            if bound in defined:
                counts = imports.setdefault(bound, {})
                counts[statement] = counts.get(statement, 0) + 1
        for name in set(_definitions(tree)) & set(names):
            defined[name].append([module, path])
    ranked = {
        name: sorted(((count, text) for text, count in counts.items()), key=lambda c: (-c[0], c[1]))[:MOST]
        for name, counts in imports.items()
    }
    return {"imports": ranked, "defined": defined, "paths": modules}


def _sources(root: str) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(n for n in folders if n not in _LEFT_OUT and not n.startswith("."))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and not os.path.islink(path) and count < FILES:
                count += 1
                yield os.path.relpath(path, root).replace(os.sep, "/")


def _module(root: str, path: str) -> str:
    """The name under which a file is imported: from the folder above its outermost package, or from the root."""
    parts = path[:-3].split("/")
    top = len(parts) - 1
    while top and os.path.exists(os.path.join(root, *(parts[:top] + ["__init__.py"]))):
        top -= 1
    if top == len(parts) - 1 and parts[0] not in ("src", "lib", "tests", "test"):
        top = 0  # a package without an __init__.py, or a module at the root
    elif top == len(parts) - 1 and parts[0] in ("src", "lib"):
        top = 1
    parts = parts[top:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _imports(tree: ast.AST, module: str, path: str) -> Iterator[tuple[str, str]]:
    """(statement, name) of every import, with relative ones made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                text = "import " + alias.name + (" as " + alias.asname if alias.asname else "")
                yield text, bound
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            source = node.module or ""
            if node.level:
                package = module.split(".")
                if not path.endswith("__init__.py"):
                    package = package[:-1]
                package = package[: len(package) - (node.level - 1)]
                source = ".".join(package + ([node.module] if node.module else []))
            for alias in node.names:
                if alias.name != "*" and source:
                    text = "from %s import %s" % (source, alias.name) + (" as " + alias.asname if alias.asname else "")
                    yield text, alias.asname or alias.name


def _definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id


# What is installed


def standard(name: str, uses: Sequence[str]) -> list[str]:
    """Modules of the standard library that define this name with these attributes, the name's own module first."""
    found: list[tuple[bool, bool, int, int, str]] = []
    for module in _standard_modules():
        if not _mentions(module, name):
            continue
        try:
            loaded = importlib.import_module(module)
            value = getattr(loaded, name)
            public = getattr(loaded, "__all__", None)
            home = getattr(value, "__module__", module) or module
            is_module = isinstance(value, type(sys))
            fits = all(hasattr(value, use) for use in uses)
        except BaseException:  # importing a module runs its code, which may even exit
            continue
        is_own = home.lstrip("_").split(".")[0] == module.split(".")[0]
        if not fits or is_module or name.startswith("_") or not (is_own if public is None else name in public):
            continue
        # `collections.abc.Mapping` is a class, `typing.Mapping` another name for it.
        found.append((not isinstance(value, type), home.lstrip("_") != module, module.count("."), len(module), module))
    return [entry[-1] for entry in sorted(found)][:MOST]


def _standard_modules() -> Iterator[str]:
    folder = os.path.dirname(os.__file__)
    names: Iterable[str] | None = getattr(sys, "stdlib_module_names", None)
    if names is None:
        names = set(sys.builtin_module_names) | {module.name for module in pkgutil.iter_modules([folder])}
    for name in sorted(names):
        if name.startswith("_") or name in _NOT_IMPORTED:
            continue
        yield name
        package = os.path.join(folder, name)
        if os.path.isfile(os.path.join(package, "__init__.py")):
            yield from _below(package, name)


def _below(folder: str, package: str, deepest: int = 2) -> Iterator[str]:
    for module in pkgutil.iter_modules([folder]):
        if module.name.startswith("_") or module.name in ("tests", "test", "idle_test"):
            continue
        yield package + "." + module.name
        if module.ispkg and deepest:
            yield from _below(os.path.join(folder, module.name), package + "." + module.name, deepest - 1)


_texts: dict[str, str | None] = {}


def _mentions(module: str, name: str) -> bool:
    """Whether a module's source contains the word; True if there is no source (importing it will show)."""
    if module not in _texts:
        path = os.path.join(os.path.dirname(os.__file__), *module.split("."))
        _texts[module] = None
        for file in (path + ".py", os.path.join(path, "__init__.py")):
            try:
                with open(file, encoding="utf-8", errors="replace") as source:
                    _texts[module] = source.read()
            except OSError:
                continue
    text = _texts[module]
    # Star imports define names that the source does not contain.
    return text is None or "import *" in text or re.search(r"\b%s\b" % re.escape(name), text) is not None


def installed(name: str, modules: Iterable[str]) -> list[str]:
    """Public modules of the named packages that define `name`, nearest to the package's top first. Nothing is imported."""
    word = re.escape(name)
    pattern = re.compile(r"(?m)^(?:class|def|async def)\s+%s\b|^%s\s*(?::[^=\n]*)?=" % (word, word))
    found: list[tuple[int, str]] = []
    for top in dict.fromkeys(module.split(".")[0] for module in modules):
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError, AttributeError):
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if "site-packages" not in folder and "dist-packages" not in folder:
                continue
            for path in list(_sources(folder))[:2000]:
                parts = [top] + path[:-3].split("/")
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                if any(part.startswith("_") or part in ("tests", "testing") for part in parts):
                    continue
                try:
                    with open(os.path.join(folder, path), encoding="utf-8") as file:
                        if pattern.search(file.read(LARGEST)):
                            found.append((len(parts), ".".join(parts)))
                except (OSError, ValueError):
                    continue
    return [module for _, module in sorted(found)][:MOST]


def kind(module: str) -> str:
    """Returns "standard", "installed", or "" if nothing by that name can be imported."""
    top = module.split(".")[0]
    known = getattr(sys, "stdlib_module_names", None) or sys.builtin_module_names
    try:
        if not top or (top != module and importlib.util.find_spec(top) is None):
            return ""
        spec = importlib.util.find_spec(module) if top == module or top in known else _find_inside(module)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None:
        return ""
    origin = getattr(spec, "origin", None) or ""
    is_third = "site-packages" in origin or "dist-packages" in origin
    return "installed" if is_third or (top not in known and not origin.startswith(os.path.dirname(os.__file__))) else "standard"


def _find_inside(module: str) -> ModuleSpec | None:
    """The spec of a submodule without importing its package."""
    parts = module.split(".")
    path = spec = None
    for at in range(len(parts)):
        if at and path is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: at + 1]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def distributions(modules: Iterable[str]) -> dict[str, list[str]]:
    """The installed distributions that provide these top-level modules."""
    try:
        from importlib import metadata

        known = metadata.packages_distributions()
    except (ImportError, AttributeError):
        return {}
    tops = dict.fromkeys(module.split(".")[0] for module in modules)
    return {top: sorted(set(known[top])) for top in tops if top in known}
