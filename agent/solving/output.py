"""The forms in which solved code is handed out: the function, the module, a script with a command line. Pure."""

from __future__ import annotations

import ast

from agent.solving.code import Function
from agent.solving.options import Form

_SCRIPT = '''

def _value(text):
    """A Python literal such as 3 or [1, 2]; anything else is a text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _main():
    parser = argparse.ArgumentParser(description={summary!r})
{arguments}
    given = parser.parse_args()
    print({call})


if __name__ == "__main__":
    _main()
'''


def formed(text: str, name: str, form: Form, *, clean_doc: bool = False) -> str:
    """The code in this form; `name` is the function. A module without it is returned as it is."""
    if clean_doc:
        text = without_examples(text)
    if not _function(text, name):
        return text
    if form == "function":
        return _alone(text, name)
    return _script(text, name) if form == "script" else text


def _alone(text: str, name: str) -> str:
    """The function, without imports and helpers."""
    node = _function(text, name)
    assert node is not None
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "\n".join(text.split("\n")[first - 1 : node.end_lineno]) + "\n"


def _script(text: str, name: str) -> str:
    """The module with a command line: positional arguments for those that are required, options for the others."""
    node = _function(text, name)
    assert node is not None
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    optional = plain[len(plain) - len(given.defaults) :] if given.defaults else []
    lines, call = [], []
    for each in plain:
        if each in optional:
            default = ast.unparse(given.defaults[optional.index(each)])
            lines.append(f'    parser.add_argument("--{_option(each.arg)}", dest="{each.arg}", type=_value, default={default})')
        else:
            lines.append(f'    parser.add_argument("{each.arg}", type=_value)')
        call.append(f"given.{each.arg}")
    if given.vararg:
        lines.append(f'    parser.add_argument("{given.vararg.arg}", type=_value, nargs="*")')
        call.append(f"*given.{given.vararg.arg}")
    for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        how = f"default={ast.unparse(value)}" if value is not None else "required=True"
        lines.append(f'    parser.add_argument("--{_option(each.arg)}", dest="{each.arg}", type=_value, {how})')
        call.append(f"{each.arg}=given.{each.arg}")
    summary = (ast.get_docstring(node) or name).split("\n")[0]
    called = f"{name}({', '.join(call)})"
    if isinstance(node, ast.AsyncFunctionDef):
        called = f"asyncio.run({called})"
    wanted = ["argparse", "ast", *(["asyncio"] if isinstance(node, ast.AsyncFunctionDef) else [])]
    main = _SCRIPT.format(summary=summary.replace("%", "%%"), arguments="\n".join(lines), call=called)
    return _with_imports(text, wanted) + main


def _option(name: str) -> str:
    return name.strip("_").replace("_", "-")


def _with_imports(text: str, modules: list[str]) -> str:
    """The module's text with these imports, after its docstring and its imports from `__future__`."""
    tree = ast.parse(text)
    known = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names if not alias.asname}
    missing = [f"import {module}" for module in modules if module not in known]
    if not missing:
        return text.rstrip("\n") + "\n"
    after = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if (is_docstring and node is tree.body[0]) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            after = node.end_lineno or after
    lines = text.rstrip("\n").split("\n")
    space = [""] if after else []
    gap = [] if lines[after : after + 1] and lines[after].startswith(("import ", "from ")) else [""]
    return "\n".join([*lines[:after], *space, *missing, *gap, *lines[after:]]) + "\n"


def without_examples(text: str) -> str:
    """The code with the examples removed from its docstrings, so that the description remains."""
    tree = ast.parse(text)
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


def _function(text: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    found = [node for node in ast.parse(text).body if isinstance(node, Function) and node.name == name]
    return found[0] if found else None
