"""The forms in which solved code is handed out: the function, the module, a script with a command line. Pure."""

from __future__ import annotations

import ast

from agent.solving.code import Function, functions, imported
from agent.solving.options import Form
from agent.source import syntax
from agent.source.imports import with_imports

_VALUE = '''
def _value(text):
    """A Python literal such as 3 or [1, 2]; anything else is a text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text

'''
_MAIN = """
def _main():
    parser = argparse.ArgumentParser(description={summary})
{arguments}
    given = parser.parse_args()
    try:
        print({call})
    except Exception as error:
        parser.error(f"{{type(error).__name__}}: {{error}}")


if __name__ == "__main__":
    _main()
"""
_PLAIN = ("int", "float", "str")  # annotations that are the converter too


def formed(text: str, name: str, form: Form, *, clean_doc: bool = False) -> str:
    """The code in this form; `name` is the function. A module without it is returned as it is."""
    if clean_doc:
        text = without_examples(text)
    nodes = functions(text, name)
    if not nodes or form == "module":
        return text
    return _with_needs(text, name) if form == "function" else _script(text, nodes[0])


def _with_needs(text: str, name: str) -> str:
    """The function after what it needs of the module: imports, constants, helpers."""
    body, needed = syntax.tree(text).body, {name}
    found = {node.lineno for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"}
    while more := [node for node in body if node.lineno not in found and _bound(node) & needed]:
        found |= {node.lineno for node in more}
        needed = needed.union(*map(_names, more))
    lines, parts = text.split("\n"), ""
    for node in body:
        if node.lineno in found:
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            is_apart = isinstance(node, Function | ast.ClassDef) and parts
            parts += "\n\n" * bool(is_apart) + "\n".join(lines[first - 1 : node.end_lineno]) + "\n"
    return parts


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of the module binds."""
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return stored.union(*map(imported, ast.walk(node)))


def _script(text: str, node: Function) -> str:
    """The module with a command line: positional arguments for those that are required, options for the others."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    lines, call = [], []
    for each, default in zip(plain, defaults, strict=True):
        lines.append(_argument(each, default, "" if default is None else "--"))
        call.append(f"given.{each.arg}")
    if given.vararg:
        lines.append(_argument(given.vararg, None, "", ', nargs="*"'))
        call.append(f"*given.{given.vararg.arg}")
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        lines.append(_argument(each, default, "--", ", required=True" if default is None else ""))
        call.append(f"{each.arg}=given.{each.arg}")
    summary = (ast.get_docstring(node) or node.name).split("\n")[0]
    called = f"{node.name}({', '.join(call)})"
    if isinstance(node, ast.AsyncFunctionDef):
        called = f"asyncio.run({called})"
    converter = _VALUE if any("type=_value" in line for line in lines) else ""
    wanted = ["argparse", *(["ast"] if converter else []), *(["asyncio"] if called.startswith("asyncio.") else [])]
    known = {name for each in syntax.tree(text).body if isinstance(each, ast.Import) for name in imported(each)}
    main = _MAIN.format(summary=_quoted(summary.replace("%", "%%")), arguments="\n".join(lines), call=called)
    text = with_imports(text.rstrip("\n"), [f"import {module}" for module in wanted if module not in known])
    return f"{text}\n\n{converter}{main}"


def _argument(each: ast.arg, default: ast.expr | None, dashes: str, more: str = "") -> str:
    """The line that adds an argument of the function to the parser."""
    name = f'"--{each.arg.strip("_").replace("_", "-")}", dest="{each.arg}"' if dashes else f'"{each.arg}"'
    kinds = [kind for kind in _alternatives(each.annotation) if kind != "None"]
    kind = kinds[0] if len(kinds) == 1 and kinds[0] in _PLAIN else "_value"
    choices = ", choices=[False, True]" if kinds == ["bool"] else ""
    value = f", default={_literal(default)}" if default is not None else ""
    return f"    parser.add_argument({name}, type={kind}{choices}{value}{more})"


def _literal(node: ast.expr) -> str:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return _quoted(ast.literal_eval(node)) if is_text else ast.unparse(node)


def _quoted(text: str) -> str:
    """A literal with double quotes, unless it would need more escapes."""
    return repr(text) if '"' in text else f'"{repr(text)[1:-1]}"'


def _alternatives(annotation: ast.expr | None) -> list[str]:
    """The types that an annotation allows: "int", "None" for `int | None`, also for `Optional[int]`."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_alternatives(left), *_alternatives(right)]
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return [*_alternatives(inner), "None"]
        case ast.Constant(value=str(text)):
            return [text]
    return [ast.unparse(annotation)] if annotation is not None else []


def without_examples(text: str) -> str:
    """The code with the examples removed from its docstrings, so that the description remains."""
    tree = syntax.tree(text)
    lines = text.split("\n")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in sorted(
        (node for node in ast.walk(tree) if isinstance(node, kinds)), key=lambda node: -getattr(node, "lineno", 0)
    ):
        if not (node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)):
            continue
        docstring = node.body[0]
        said = ast.get_docstring(node)
        if said is None or ">>>" not in said or docstring.end_lineno is None:
            continue
        kept = _described(said)
        indent = " " * docstring.col_offset
        quote = '"""'
        escaped = kept.replace("\\", "\\\\").replace(quote, '\\"\\"\\"')
        block = [
            f"{indent}{quote}{escaped.split(chr(10))[0]}",
            *(f"{indent}{line}" if line else "" for line in escaped.split("\n")[1:]),
        ]
        if len(block) == 1:
            block[0] += quote
        else:
            block.append(f"{indent}{quote}")
        lines[docstring.lineno - 1 : docstring.end_lineno] = block
    return "\n".join(lines)


def _described(docstring: str) -> str:
    """A docstring without its examples and without the headings above them."""
    kept: list[str] = []
    in_example = False
    for line in docstring.split("\n"):
        if line.strip().startswith(">>>"):
            in_example = True
        elif not line.strip():
            in_example = False
        if not in_example:
            kept.append(line.rstrip())
    while kept and (not kept[-1] or kept[-1].strip().lower().rstrip(":") in ("example", "examples", "for example", "e.g.")):
        kept.pop()
    return "\n".join(line for at, line in enumerate(kept) if line or kept[at - 1 : at] != [""]) or "Undocumented."
