"""`selfheal solve`: its arguments and profiles. The work is in `run.py`, which is imported when they are valid.

Exit codes: 0 solved, 1 not solved or declined, 2 usage error, 130 stopped.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from agent.solving.options import Decode, Form, spelled
from app.cli.command import Json, load_settings, run, tune_interpreter, wrong_use
from app.cli.solve.wish import DEFAULTS, Autonomy, Switch, Wish, option

PROFILES: Mapping[str, Mapping[str, Any]] = {  # what each sets, unless the user does
    "fast": {"design": False, "candidates": 1, "decode": "greedy", "iterations": 2, "adversarial": "off", "retry": "off"},
    "copy": {"yes": True, "show_tests": False, "code_only": True},
    "save": {"yes": True, "out": Path("outputs"), "new_folder": True},
}


def solve(
    ctx: typer.Context,
    words: Annotated[
        str | None, typer.Argument(metavar="[SPECIFICATION]", help="What the code should do; `-` reads standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the specification from a file.")
    ] = None,
    fn: Annotated[str, typer.Option("--fn", metavar="NAME", help="Name of the function.")] = "",
    signature: Annotated[
        str, typer.Option("--signature", metavar="SIGNATURE", help="Signature to keep, such as `slug(text: str) -> str`.")
    ] = "",
    doctests: Annotated[
        str, typer.Option("--doctests", metavar="TEXT|FILE", help="Examples that must hold: doctests, or a file with them.")
    ] = "",
    tests: Annotated[Path | None, typer.Option("--tests", metavar="FILE", help="pytest file that must pass.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="LiteLLM name of the model; `scripted` or `scripted:FILE` for a trial."),
    ] = None,
    design: Annotated[bool, option("design")] = DEFAULTS.design,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Show the design, and do not ask whether it is right.")] = False,
    candidates: Annotated[int, option("candidates")] = DEFAULTS.candidates,
    decode: Annotated[Decode, option("decode")] = DEFAULTS.decode,
    temperature: Annotated[float, option("temperature")] = DEFAULTS.temperature,
    iterations: Annotated[int | None, option("iterations")] = DEFAULTS.iterations,
    seconds: Annotated[float | None, option("seconds")] = DEFAULTS.seconds,
    tokens: Annotated[int | None, option("tokens")] = DEFAULTS.tokens,
    cost: Annotated[float | None, option("cost")] = DEFAULTS.cost,
    spec_tests: Annotated[Switch, option("spec_tests")] = "on",
    adversarial: Annotated[Switch, option("adversarial")] = "on",
    critic: Annotated[Switch, option("critic")] = "on",
    debugger: Annotated[Switch, option("debugger")] = "on",
    memory: Annotated[Switch, option("memory")] = "off",
    strategies: Annotated[int | None, option("strategies")] = DEFAULTS.strategies,
    retry: Annotated[Switch, option("retry")] = "on",
    autonomy: Annotated[
        Autonomy,
        typer.Option("--autonomy", help="When you are asked: never, before each repair, or also before the first answer."),
    ] = "full",
    form: Annotated[Form, option("form")] = DEFAULTS.form,
    clean_doc: Annotated[bool, option("clean_doc")] = DEFAULTS.clean_doc,
    show_tests: Annotated[bool, option("show_tests")] = DEFAULTS.show_tests,
    code_only: Annotated[
        bool, typer.Option("--code-only", help="Print the code alone on standard output, as it is in a pipe.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write code, tests and log to this folder.")
    ] = None,
    new_folder: Annotated[
        bool, typer.Option("--new-folder", help="Write to a new folder in that of --out, named after the time.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that the folder of --out has.")] = False,
    profile: Annotated[
        Literal["fast", "copy", "save"] | None,
        typer.Option(
            "--profile",
            help="fast: no design, one greedy answer, two rounds; copy: print the code alone; save: write to a new folder in "
            "outputs/, or to that of --out.",
        ),
    ] = None,
    show_command: Annotated[
        bool, typer.Option("--show-command", help="Print the command with its profile spelled out, and stop.")
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each event as a line of JSON, and the result as the last one.")
    ] = False,
    json: Json = False,
) -> None:
    """Write code from a specification, test it in the sandbox, and repair it until its tests pass."""
    if stream and json:
        wrong_use("--stream prints lines of JSON and --json one object; give one of the two")
    if new_folder and out is None and profile != "save":
        wrong_use("--new-folder makes a folder in that of --out; give --out FOLDER too")
    if autonomy != "full" and not (sys.stdin.isatty() and sys.stderr.isatty()):
        wrong_use(f"--autonomy {autonomy} asks you, and this is no terminal; run it in one, or leave the option out")
    tune_interpreter()
    from agent.models.values import ModelError
    from agent.solving.home import BadSpecification
    from agent.solving.solution import Declined
    from agent.solving.specification import LONGEST_TESTS, specify
    from sandbox.base import SandboxError

    text = _text(words, file)
    try:
        spec = specify(
            text,
            name=fn,
            signature=signature,
            doctests=_examples(doctests),
            tests=_read(tests, LONGEST_TESTS) if tests is not None else "",
        )
    except BadSpecification as error:
        wrong_use(str(error))
    own = {name for name in ctx.params if (source := ctx.get_parameter_source(name)) and source.name != "DEFAULT"}
    preset = {name: value for name, value in PROFILES.get(profile or "", {}).items() if name not in own}
    if "out" in own:
        preset.pop("new_folder", None)  # a folder that the user names is used as it is
    chosen = {**ctx.params, **preset}
    if show_command:
        given = {name: value for name, value in chosen.items() if name in own or name in preset}
        typer.echo(_spelled(ctx, given if file is not None else {**given, "words": text}))
        raise typer.Exit(0)
    wish = Wish(
        design=chosen["design"],
        candidates=chosen["candidates"],
        decode=chosen["decode"],
        temperature=temperature,
        iterations=chosen["iterations"],
        seconds=seconds,
        tokens=tokens,
        cost=cost,
        spec_tests=spec_tests == "on",
        adversarial=chosen["adversarial"] == "on",
        critic=critic == "on",
        debugger=debugger == "on",
        memory=memory == "on",
        strategies=strategies,
        retry=chosen["retry"] == "on",
        form=form,
        clean_doc=clean_doc,
        show_tests=chosen["show_tests"],
        yes=chosen["yes"],
        autonomy=autonomy,
        code_only=chosen["code_only"],
        out=chosen["out"],
        streams=stream,
    )
    limits = {"iterations": wish.iterations, "seconds": wish.seconds, "tokens": wish.tokens, "cost": wish.cost}
    wanted = {"model": model, **{f"max_{name}": value for name, value in limits.items()}}
    settings = load_settings(env_file=None, **{name: value for name, value in wanted.items() if value is not None})
    from app.cli.solve import run as solving
    from app.cli.solve import saving
    from app.settings import SettingsError

    if (out := wish.out) is not None:
        try:
            if chosen["new_folder"]:
                out = saving.fresh(out)
            saving.check(out, force=force)
            wish = replace(wish, out=out)
        except SettingsError as error:
            wrong_use(str(error))
    is_solved = run(solving.run(spec, settings, wish, json=json), ModelError, SandboxError, Declined, wrong=(BadSpecification,))
    raise typer.Exit(0 if is_solved else 1)


def _text(words: str | None, file: Path | None) -> str:
    from agent.solving.specification import LONGEST

    if words is not None and words != "-" and file is not None:
        wrong_use("give the specification as an argument or with --file, not both")
    if file is not None:
        return _read(file, LONGEST)
    if words is not None and words != "-":
        return words
    if sys.stdin.isatty():
        wrong_use(
            "the specification is missing; for example: selfheal solve 'Merge overlapping intervals' --fn merge_intervals"
        )
    return _decoded(sys.stdin.buffer.read(_most(LONGEST)), "standard input", LONGEST)


def _examples(given: str) -> str:
    """Doctests, or the text of the file that is named."""
    from agent.solving.specification import LONGEST_TESTS

    if not given or ">>>" in given:
        return given
    path = Path(given)
    if not path.is_file():
        wrong_use(f"--doctests is neither examples (lines with `>>>`) nor a file: {given[:100]!r}")
    return _read(path, LONGEST_TESTS)


def _read(path: Path, longest: int) -> str:
    try:
        with path.open("rb") as stream:
            return _decoded(stream.read(_most(longest)), str(path), longest)
    except OSError as error:
        wrong_use(f"{path} cannot be read: {error.strerror}; give the path of a text file")


def _most(longest: int) -> int:
    """Bytes to read, so that a text of more than `longest` characters is known to be longer."""
    return 4 * (longest + 1)


def _decoded(data: bytes, name: str, longest: int) -> str:
    try:
        # `specify` refuses a longer text; its last character may have been cut here.
        return data.decode(errors="strict" if len(data) < _most(longest) else "ignore")
    except UnicodeDecodeError:
        wrong_use(f"{name} is not UTF-8 text; convert it, such as with iconv")


def _spelled(ctx: typer.Context, chosen: Mapping[str, Any]) -> str:
    """The command with these values, without its profile; as it can be typed in the same folder."""
    typed = sys.argv[0]  # a full path if the shell found it in PATH
    is_found = Path(typed).name != "selfheal" or shutil.which("selfheal") == typed
    parts, last = ["selfheal" if is_found else typed, "solve"], list[str]()
    for each in ctx.command.params:
        value = chosen.get(each.name or "")
        if each.name in ("profile", "show_command") or value is None:
            continue
        if each.param_type_name == "argument":
            parts, last = (parts, ["--", value]) if value.startswith("-") else ([*parts, value], [])
        elif isinstance(value, bool):
            parts += each.opts[:1] if value else each.secondary_opts[:1]
        else:
            parts += [each.opts[0], spelled(value)]
    return shlex.join([*parts, *last])
