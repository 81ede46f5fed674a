"""The command line, HTTP and Python offer the same options for writing code, as `agent.solving.options` defines them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
from pydantic import TypeAdapter

from agent import Options
from agent.solving.options import FIELDS, UserOptions, arguments, flag
from app.cli.main import app
from app.service.solving import SolveIn
from tests.app.cli.solve.test_solve_command import solve

ONLY_ONE = {  # what one of them has alone: how the specification is given, and how a person is asked and shown the result
    "command": {"words", "file", "fn", "signature", "doctests", "tests", "model", "yes", "autonomy", "out", "profile"}
    | {"force", "new_folder", "show_command", "stream", "json", "code_only"},
    "http": {"specification", "name", "signature", "doctests", "tests"},
    "python": {"confirm", "autonomy", "decide", "lessons"},
}
TYPES = get_type_hints(UserOptions)


def parameters() -> dict[str, Any]:
    command: Any = typer.main.get_command(app)
    return {each.name: each for each in command.commands["solve"].params}


def changed(name: str) -> Any:
    """A value that is not the default."""
    known = FIELDS[name]
    if isinstance(known.default, bool):
        return not known.default
    return known.metadata["le"] if "le" in known.metadata else get_args(TYPES[name])[-1]


def test_each_has_every_option() -> None:
    assert set(parameters()) - {"help"} == set(FIELDS) | ONLY_ONE["command"]
    assert set(TypeAdapter(SolveIn).json_schema()["properties"]) == set(FIELDS) | ONLY_ONE["http"]
    assert set(Options.__dataclass_fields__) == set(FIELDS) | ONLY_ONE["python"]


@pytest.mark.parametrize("name", FIELDS)
def test_each_has_the_same_bounds_defaults_and_help(name: str) -> None:
    known = FIELDS[name]
    asked = parameters()[name]
    assert "/".join([*asked.opts, *asked.secondary_opts]) == flag(name)
    assert asked.help == known.metadata["description"]
    bounds = (known.metadata.get("ge"), known.metadata.get("le"))
    assert (asked.min, asked.max) == bounds
    is_switch = isinstance(known.default, bool) and "flag" not in known.metadata
    default = ("on" if known.default else "off") if is_switch else known.default
    assert asked.default == default

    described = TypeAdapter(SolveIn).json_schema()["properties"][name]
    assert described["description"] == known.metadata["description"]
    assert described.get("default") == known.default
    ranged = next((each for each in described.get("anyOf", ()) if "minimum" in each), described)
    assert (ranged.get("minimum"), ranged.get("maximum")) == bounds
    if choices := [each for each in get_args(TYPES[name]) if isinstance(each, str)]:
        assert list(asked.type_descriptor.choices) == described["enum"] == choices


def test_python_refuses_what_is_out_of_bounds() -> None:
    for name, bounds in (("candidates", "1 to 16, not 17"), ("temperature", "0 to 2, not 3")):
        with pytest.raises(ValueError, match=f"{name} must be from {bounds}"):
            Options(**{name: int(bounds.split()[-1])})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give `decide`"):
        Options(autonomy="review_all")


def test_what_is_chosen_reaches_the_command_line_whole(tmp_path: Path) -> None:
    chosen = UserOptions(**{name: changed(name) for name in FIELDS})
    code, out, err = solve(tmp_path, "Add.", *arguments(chosen), "--show-command")
    assert code == 0, err
    assert shlex.split(out) == ["selfheal", "solve", "Add.", *arguments(chosen)]
    assert arguments(UserOptions()) == []
