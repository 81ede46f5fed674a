"""Follows hatch: `hatch run env:script`, `hatch test`, `hatch fmt`, with the dependencies of the environment they use."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.ci.project.install_commands import merge
from agent.ci.runners import manifest
from agent.ci.runners.context import TEXT_LIMIT, Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.manifest import Manifest, split_options
from agent.ci.runners.selection import one_of_each
from agent.ci.runners.tox.config import toml
from agent.ci.runners.tox.values import ToxError
from agent.ci.tables import as_table, strings
from sandbox.base import Packages

_NESTED = 20
_MATRIX = 300
_FIELD = re.compile(r"\{(args|env|matrix|root|home|/)(?::([^{}:]*))?(?::([^{}]*))?\}")
# What hatch itself says of the environment of `hatch test`.
_TEST: Mapping[str, object] = {
    "dependencies": [
        *("coverage[toml]~=7.4", "pytest~=8.1", "pytest-mock~=3.12", "pytest-randomly~=3.15"),
        *("pytest-rerunfailures~=14.0", "pytest-xdist[psutil]~=3.5"),
    ],
    "scripts": {
        "run": "pytest{env:HATCH_TEST_ARGS:} {args}",
        "run-cov": "coverage run -m pytest{env:HATCH_TEST_ARGS:} {args}",
    },
}


class HatchError(ValueError):
    """What cannot be followed; the message is a clause."""


@dataclass(frozen=True, slots=True)
class _Environment:
    """One environment, templates and matrix settled."""

    name: str
    table: Mapping[str, object]
    matrix: Mapping[str, str]

    @property
    def python(self) -> str | None:
        told = self.matrix.get("python") or self.matrix.get("py") or str(self.table.get("python") or "")
        found = re.match(r"(3\.\d{1,2})", told)
        return found[1] if found else None


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "hatch"."""
    before, rest = split_options(list(words[1:]), ("-e", "--env", "-p", "--project", "--config", "--data-dir", "--cache-dir"))
    chosen = next(iter([*before.get("-e", []), *before.get("--env", [])]), "default")
    found = manifest.read(place)
    try:
        environments = _tables(found, place)
        match rest:
            case ["run", *arguments]:
                while arguments and arguments[0][:1] in "+-" and len(arguments) > 1:
                    arguments = arguments[1:]  # choices of the matrix, which the one Python makes
                return _run(arguments, chosen, environments, found, again)
            case ["env", "run", *arguments]:
                options, command = split_options(
                    arguments, ("-e", "--env", "-i", "--include", "-x", "--exclude", "-f", "--filter")
                )
                name = next(iter([*options.get("-e", []), *options.get("--env", [])]), chosen)
                return _run([f"{name}:{command[0]}", *command[1:]] if command else [], chosen, environments, found, again)
            case ["env", "create", *names]:
                environment, notes = _settled(next(iter(names), chosen), environments, place)
                return Followed("", _packages(environment, found), place.env, place.cwd, environment.python, notes)
            case ["test", *arguments]:
                return _test(arguments, environments, found, again)
            case ["fmt", *arguments]:
                plain = [word for word in arguments if word not in ("--check", "-l", "--linter", "-f", "--formatter")]
                only = {"-l", "--linter"} & set(arguments) or {"-f", "--formatter"} & set(arguments)
                parts = ["ruff check ."] if not only or only & {"-l", "--linter"} else []
                parts += ["ruff format --check ."] if not only or only & {"-f", "--formatter"} else []
                inner = again("\n".join(" ".join([part, *plain]) for part in parts), place)
                return replace(inner, packages=merge(Packages(requirements=("ruff",)), inner.packages))
            case ["build", *_]:
                return Followed("python -m build", Packages(requirements=("build",)), place.env, place.cwd)
            case ["env" | "config" | "python" | "version" | "dep" | "self", *_]:
                return Followed("", Packages(), place.env, place.cwd)
    except (HatchError, RecursionError) as wrong:
        return Unfollowed(str(wrong) or "its environments are nested too deeply")
    return None


def _tables(found: Manifest, place: Place) -> dict[str, Mapping[str, object]]:
    """Environments by name, with what templates give them."""
    raw: dict[str, object] = {**found.table("tool", "hatch", "envs")}
    if text := place.text("hatch.toml"):
        try:
            own = toml(text).get("envs")
        except ToxError as wrong:
            raise HatchError(str(wrong)) from wrong
        raw |= own if isinstance(own, dict) else {}
    raw.setdefault("default", {})
    test = as_table(raw.get("hatch-test"))
    raw["hatch-test"] = {**_TEST, **test, "scripts": {**as_table(_TEST["scripts"]), **as_table(test.get("scripts"))}}

    def settled(name: str, above: tuple[str, ...]) -> Mapping[str, object]:
        own = as_table(raw.get(name))
        template = str(own.get("template") or ("default" if name not in ("default", "hatch-test") else name))
        if name in above or len(above) > _NESTED:
            raise HatchError(f"its environment {name[:60]} is a template of itself")
        if template == name or own.get("detached") is True or template not in raw:
            return own
        base = {key: value for key, value in settled(template, (*above, name)).items() if key != "matrix"}
        scripts = {**as_table(base.get("scripts")), **as_table(own.get("scripts"))}
        env = {**as_table(base.get("env-vars")), **as_table(own.get("env-vars"))}
        return {**base, **own, "scripts": scripts, "env-vars": env}

    return {name: settled(name, ()) for name in raw}


def _settled(name: str, environments: Mapping[str, Mapping[str, object]], place: Place) -> tuple[_Environment, tuple[str, ...]]:
    """An environment of this name, of a matrix the one for the wanted Python, and notes on the others."""
    bare = name if name in environments else name.partition(".")[0]
    if bare not in environments:
        raise HatchError(f"it has no environment {name[:60]}")
    table = environments[bare]
    made: dict[str, dict[str, str]] = {}
    rows = table.get("matrix")
    for row in rows if isinstance(rows, list) else []:
        axes = {str(key): strings(values) for key, values in as_table(row).items()}
        for combined in itertools.islice(itertools.product(*axes.values()), _MATRIX):
            values = dict(zip(axes, combined, strict=True))
            parts = [
                f"py{value}" if key in ("python", "py") and value[:1].isdigit() else value for key, value in values.items()
            ]
            made[f"{bare}.{'-'.join(parts)}" if bare != "default" else "-".join(parts)] = values
    if not made:
        return _Environment(bare, table, {}), ()
    if name in made:
        return _Environment(name, table, made[name]), ()
    settled = [_Environment(one, table, values) for one, values in made.items()]
    chosen, left_out = one_of_each(list(made), [(bare, one.python) for one in settled], place.python)
    notes = (f"environments of hatch's matrix are left out: {left_out}",) if left_out else ()
    return next(one for one in settled if one.name == chosen[0]), notes


def _run(
    words: Sequence[str], chosen: str, environments: Mapping[str, Mapping[str, object]], found: Manifest, again: Again
) -> Result:
    if not words:
        return Unfollowed("it names no command")
    name, colon, command = words[0].rpartition(":")
    if not (colon and (name in environments or name.partition(".")[0] in environments)):
        name, command = chosen, words[0]
    environment, notes = _settled(name, environments, found.place)
    text = _script(environment, command, list(words[1:]), found.place, ())
    return _followed(text, environment, notes, found, again)


def _test(arguments: list[str], environments: Mapping[str, Mapping[str, object]], found: Manifest, again: Again) -> Result:
    options, rest = split_options(
        arguments, ("-py", "--python", "-i", "--include", "-x", "--exclude", "--retries", "--retry-delay")
    )
    place = found.place
    if asked := next(
        (match[1] for value in options.get("-py", []) + options.get("--python", []) if (match := re.match(r"(3\.\d+)", value))),
        "",
    ):
        place = replace(place, python=asked)
    environment, notes = _settled("hatch-test", environments, place)
    covered = bool({"-c", "--cover", "--cover-quiet"} & options.keys())
    default = strings(environment.table.get("default-args")) or ["tests"]
    extra = strings(environment.table.get("extra-args"))
    text = _script(environment, "run-cov" if covered else "run", [*extra, *(rest or default)], place, ())
    inner = _followed(text, environment, notes, found, again)
    return replace(inner, python=environment.python or asked or inner.python) if isinstance(inner, Followed) else inner


def _followed(text: str, environment: _Environment, notes: tuple[str, ...], found: Manifest, again: Again) -> Followed:
    env = {
        key: _field(str(value), environment, [], found.place)
        for key, value in as_table(environment.table.get("env-vars")).items()
    }
    inner = again(text, replace(found.place.with_env(env), python=environment.python or found.place.python))
    if environment.table.get("overrides"):
        notes = (*notes, f"overrides of hatch's environment {environment.name[:60]} are not read")
    packages = merge(_packages(environment, found), inner.packages)
    python = environment.python or inner.python
    return replace(inner, packages=replace(packages, python=python), python=python, notes=(*notes, *inner.notes))


def _script(environment: _Environment, name: str, arguments: list[str], place: Place, above: tuple[str, ...]) -> str:
    """A script by its name, with scripts that it names in turn; what is no script is a command line."""
    place.steps.take()
    scripts = as_table(environment.table.get("scripts"))
    if name not in scripts:
        return " ".join([name, *map(shlex.quote, arguments)]) if above else shlex.join([name, *arguments])
    if name in above or len(above) > _NESTED:
        raise HatchError(f"its script {name[:60]} calls itself")
    given = scripts[name]
    lines: list[str] = []
    for line in [given] if isinstance(given, str) else strings(given):
        careless = line.startswith("- ")
        text = _field(line.removeprefix("- "), environment, arguments, place)
        first, _, rest = text.partition(" ")
        if first in scripts:
            text = _script(environment, first, shlex.split(rest), place, (*above, name))
        lines.append(f"{text} || true" if careless else text)
    joined = "\n".join(lines)
    if len(joined) > TEXT_LIMIT:
        raise HatchError("what it runs is too long")
    return joined


def _field(text: str, environment: _Environment, arguments: list[str], place: Place) -> str:
    """Context formatting: `{args:tests}`, `{env:NAME:default}`, `{matrix:django}`, `{root}`."""

    def fill(match: re.Match[str]) -> str:
        kind, name, default = match[1], match[2] or "", match[3]
        if kind == "args":
            return shlex.join(arguments) or ":".join(part for part in (name, default) if part)
        if kind in ("env", "matrix"):
            known = place.env if kind == "env" else environment.matrix
            if name not in known and default is None:
                raise HatchError(f"the value of `{match[0][:60]}` is not known")
            return known.get(name, default or "")
        return {"root": ".", "/": "/"}.get(kind, "~")

    return _FIELD.sub(fill, text).strip()


def _packages(environment: _Environment, found: Manifest) -> Packages:
    table = environment.table
    requirements = [*strings(table.get("dependencies")), *strings(table.get("extra-dependencies"))]
    requirements = [_field(item, environment, [], found.place) for item in requirements]
    installed = table.get("skip-install") is not True and table.get("detached") is not True
    project = found.project(strings(table.get("features"))) if installed else Packages()
    groups = found.of_groups(strings(table.get("dependency-groups")))
    return merge(project, merge(groups, Packages(requirements=tuple(item for item in requirements if "://" not in item))))
