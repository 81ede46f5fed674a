"""`selfheal solve`: its arguments and profiles. The work is in `run.py`, which is imported when they are valid.

Exit codes: 0 solved, 1 not solved or declined, 2 usage error, 130 stopped.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.command import Json, load_settings, run, tune_interpreter, wrong_use
from app.cli.solve.wish import Autonomy, Wish

LONGEST_FILE = 1024 * 1024  # bytes that are read of a specification or of tests
Switch = Literal["on", "off"]


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
    no_design: Annotated[bool, typer.Option("--no-design", help="Do not draft a signature and examples first.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether the design is right.")] = False,
    candidates: Annotated[int | None, typer.Option("--candidates", min=1, max=16, help="First answers to choose from.")] = None,
    decode: Annotated[
        Literal["greedy", "sample"] | None,
        typer.Option("--decode", help="Decoding of the first answer; further ones are samples."),
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0, max=2, help="Temperature of samples.")] = 0.7,
    iters: Annotated[int | None, typer.Option("--iters", min=1, help="Most rounds, the first answer included.")] = None,
    spec_tests: Annotated[
        Switch | None, typer.Option("--spec-tests", help="Tests from the specification, before any code.")
    ] = None,
    adversarial: Annotated[
        Switch | None, typer.Option("--adversarial", help="Tests that try to break the accepted code.")
    ] = None,
    critic: Annotated[Switch | None, typer.Option("--critic", help="A review of the accepted code.")] = None,
    debugger: Annotated[
        Switch | None, typer.Option("--debugger", help="A diagnosis with tools, after two failed rounds.")
    ] = None,
    memory: Annotated[Switch | None, typer.Option("--memory", help="Lessons of your earlier runs; off by default.")] = None,
    strategies: Annotated[
        int | None, typer.Option("--strategies", min=1, max=3, metavar="N", help="Ways to ask for a repair in one round.")
    ] = None,
    autonomy: Annotated[
        Autonomy,
        typer.Option("--autonomy", help="When you are asked: never, before each repair, or also before the first answer."),
    ] = "full",
    budget: Annotated[float | None, typer.Option("--budget", min=1, metavar="SECONDS", help="Time limit.")] = None,
    form: Annotated[
        Literal["module", "function", "script"],
        typer.Option("--form", help="The module, only the function, or a script with a command line."),
    ] = "module",
    clean_doc: Annotated[bool, typer.Option("--clean-doc", help="Remove the examples from the docstrings.")] = False,
    no_test: Annotated[bool, typer.Option("--no-test", help="Do not show or save the tests.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write code, tests and log to this folder.")
    ] = None,
    profile: Annotated[
        Literal["fast", "copy", "save"] | None,
        typer.Option(
            "--profile",
            help="fast: no design, one greedy answer, two rounds; copy: print the code alone; save: write to outputs/.",
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
    wish = Wish(
        design=not no_design,
        yes=yes,
        candidates=candidates or 1,
        decode=decode or "greedy",
        temperature=temperature,
        blind_tests=spec_tests != "off",
        adversarial=adversarial != "off",
        critic=critic != "off",
        debugger=debugger != "off",
        memory=memory == "on",
        strategies=strategies,
        autonomy=autonomy,
        form=form,
        clean_doc=clean_doc,
        tests_shown=not no_test,
        out=out,
        streams=stream,
    )
    if profile == "fast":
        wish = replace(wish, design=False, candidates=candidates or 1, adversarial=adversarial == "on", retry=False)
        iters = iters or 2
    elif profile == "copy":
        wish = replace(wish, yes=True, tests_shown=False, quiet_result=True)
    elif profile == "save":
        wish = replace(wish, yes=True, out=out or Path("outputs"))
    if show_command:
        typer.echo(_spelled(words, file, fn, signature, doctests, tests, model, iters, budget, wish, json))
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
    given = {"model": model, "max_iterations": iters, "max_seconds": budget}
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
    iters: int | None,
    budget: float | None,
    wish: Wish,
    json: bool,
) -> str:
    parts = ["selfheal", "solve", *([words] if words is not None else [])]
    named: dict[str, object] = {
        "--file": file,
        "--fn": fn,
        "--signature": signature,
        "--doctests": doctests,
        "--tests": tests,
        "--model": model,
    }
    named |= {
        "--iters": iters,
        "--budget": budget,
        "--candidates": wish.candidates,
        "--decode": wish.decode,
        "--form": wish.form,
    }
    switches = {
        "--spec-tests": wish.blind_tests,
        "--adversarial": wish.adversarial,
        "--critic": wish.critic,
        "--debugger": wish.debugger,
        "--memory": wish.memory,
    }
    named |= {name: "on" if value else "off" for name, value in switches.items()}
    named |= {"--strategies": wish.strategies, "--autonomy": wish.autonomy, "--out": wish.out}
    for name, value in named.items():
        if value not in (None, ""):
            parts += [name, f"{value:g}" if isinstance(value, float) else str(value)]
    flags = {
        "--no-design": not wish.design,
        "--yes": wish.yes,
        "--clean-doc": wish.clean_doc,
        "--no-test": not wish.tests_shown,
        "--stream": wish.streams,
        "--json": json,
    }
    return shlex.join([*parts, *(name for name, value in flags.items() if value)])
