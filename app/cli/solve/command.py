"""`selfheal solve`: its arguments and profiles. The work is in `run.py`, which is imported when they are valid.

Exit codes: 0 solved, 1 not solved or declined, 2 usage error, 130 stopped.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from agent.solving.options import Decode, Form, arguments
from app.cli.command import Json, load_settings, run, tune_interpreter, wrong_use
from app.cli.solve.wish import DEFAULTS, Autonomy, Switch, Wish, option

LONGEST_FILE = 1024 * 1024  # bytes that are read of a specification or of tests


def solve(
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether the design is right.")] = False,
    candidates: Annotated[int, option("candidates")] = DEFAULTS.candidates,
    decode: Annotated[Decode, option("decode")] = DEFAULTS.decode,
    temperature: Annotated[float, option("temperature")] = DEFAULTS.temperature,
    iterations: Annotated[int | None, option("iterations")] = DEFAULTS.iterations,
    seconds: Annotated[float | None, option("seconds")] = DEFAULTS.seconds,
    spec_tests: Annotated[Switch, option("spec_tests")] = "on",
    adversarial: Annotated[Switch | None, option("adversarial")] = None,
    critic: Annotated[Switch, option("critic")] = "on",
    debugger: Annotated[Switch, option("debugger")] = "on",
    memory: Annotated[Switch, option("memory")] = "off",
    strategies: Annotated[int | None, option("strategies")] = DEFAULTS.strategies,
    retry: Annotated[Switch | None, option("retry")] = None,
    autonomy: Annotated[
        Autonomy,
        typer.Option("--autonomy", help="When you are asked: never, before each repair, or also before the first answer."),
    ] = "full",
    form: Annotated[Form, option("form")] = DEFAULTS.form,
    clean_doc: Annotated[bool, option("clean_doc")] = DEFAULTS.clean_doc,
    show_tests: Annotated[bool, option("show_tests")] = DEFAULTS.show_tests,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write code, tests and log to this folder.")
    ] = None,
    profile: Annotated[
        Literal["fast", "copy", "save"] | None,
        typer.Option(
            "--profile",
            help="fast: no design, no adversarial tests, two rounds; copy: print the code alone; save: write to outputs/.",
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
    is_fast = profile == "fast"
    wish = Wish(
        design=design and not is_fast,
        candidates=candidates,
        decode=decode,
        temperature=temperature,
        iterations=iterations or (2 if is_fast else None),
        seconds=seconds,
        spec_tests=spec_tests == "on",
        adversarial=adversarial == "on" if adversarial else not is_fast,
        critic=critic == "on",
        debugger=debugger == "on",
        memory=memory == "on",
        strategies=strategies,
        retry=retry == "on" if retry else not is_fast,
        form=form,
        clean_doc=clean_doc,
        show_tests=show_tests and profile != "copy",
        yes=yes or profile in ("copy", "save"),
        autonomy=autonomy,
        quiet_result=profile == "copy",
        out=out or (Path("outputs") if profile == "save" else None),
        streams=stream,
    )
    if show_command:
        typer.echo(_spelled(words, file, fn, signature, doctests, tests, model, wish, json))
        raise typer.Exit(0)
    if stream and json:
        wrong_use("--stream prints lines of JSON and --json one object; give one of the two")
    if autonomy != "full" and not (sys.stdin.isatty() and sys.stderr.isatty()):
        wrong_use(f"--autonomy {autonomy} asks you, and this is no terminal; run it in one, or leave the option out")
    text = _text(words, file)
    tune_interpreter()
    from agent.models.values import ModelError
    from agent.solving.solve import Declined
    from agent.solving.specification import BadSpecification, specify
    from sandbox.base import SandboxError

    try:
        spec = specify(
            text, name=fn, signature=signature, doctests=_examples(doctests), tests=_read(tests) if tests is not None else ""
        )
    except BadSpecification as error:
        wrong_use(str(error))
    given = {"model": model, "max_iterations": wish.iterations, "max_seconds": wish.seconds}
    settings = load_settings(env_file=None, **{name: value for name, value in given.items() if value is not None})
    from app.cli.solve import run as solving

    is_solved = run(solving.run(spec, settings, wish, json=json), ModelError, SandboxError, Declined, wrong=(BadSpecification,))
    raise typer.Exit(0 if is_solved else 1)


def _text(words: str | None, file: Path | None) -> str:
    if words is not None and words != "-" and file is not None:
        wrong_use("give the specification as an argument or with --file, not both")
    if file is not None:
        return _read(file)
    if words is not None and words != "-":
        return words
    if sys.stdin.isatty():
        wrong_use(
            "the specification is missing; for example: selfheal solve 'Merge overlapping intervals' --fn merge_intervals"
        )
    data = sys.stdin.buffer.read(LONGEST_FILE + 1)
    return _decoded(data, "standard input")


def _examples(given: str) -> str:
    """Doctests, or the text of the file that is named."""
    if not given or ">>>" in given:
        return given
    path = Path(given)
    if not path.is_file():
        wrong_use(f"--doctests is neither examples (lines with `>>>`) nor a file: {given[:100]!r}")
    return _read(path)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return _decoded(stream.read(LONGEST_FILE + 1), str(path))
    except OSError as error:
        wrong_use(f"{path} cannot be read: {error.strerror}")


def _decoded(data: bytes, name: str) -> str:
    if len(data) > LONGEST_FILE:
        wrong_use(f"{name} is larger than {LONGEST_FILE // 1024} KiB; keep what a developer must know")
    try:
        return data.decode()
    except UnicodeDecodeError:
        wrong_use(f"{name} is not UTF-8 text")


def _spelled(
    words: str | None,
    file: Path | None,
    fn: str,
    signature: str,
    doctests: str,
    tests: Path | None,
    model: str | None,
    wish: Wish,
    json: bool,
) -> str:
    given = {"--file": file, "--fn": fn, "--signature": signature, "--doctests": doctests, "--tests": tests, "--model": model}
    autonomy, profile = wish.autonomy if wish.autonomy != "full" else "", "copy" if wish.quiet_result else ""
    chosen = {"--autonomy": autonomy, "--out": wish.out, "--profile": profile}  # nothing else prints the code alone
    flags = {"--yes": wish.yes, "--stream": wish.streams, "--json": json}
    parts = ["selfheal", "solve", *([words] if words is not None else [])]
    parts += [part for name, value in given.items() if value for part in (name, str(value))]
    parts += arguments(wish)
    parts += [part for name, value in chosen.items() if value for part in (name, str(value))]
    return shlex.join([*parts, *(name for name, value in flags.items() if value)])
