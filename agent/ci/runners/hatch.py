"""Follows hatch: `hatch run env:script`, `hatch test`, `hatch fmt`, with the dependencies of the environment they use."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.ci.project.install_commands import merge
from agent.ci.project.tables import Table, as_table, read_toml, strings, tables
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed, one_of_each
from agent.ci.runners.manifest import Manifest
from agent.ci.runners.named_scripts import NamedScripts
from agent.ci.runners.options import split_options
from sandbox.base import Packages

_MATRIX = 300
_ENV_RUN_VALUED = ("-e", "--env", "-i", "--include", "-x", "--exclude", "-f", "--filter")
_TEST_VALUED = ("-py", "--python", "-i", "--include", "-x", "--exclude", "--retries", "--retry-delay")
_FIELD = re.compile(r"\{(args|env|matrix|root|home|/)(?::([^{}:]*))?(?::([^{}]*))?\}")
# hatch's own defaults for the environment of `hatch test`.
_TEST: Table = {
    "dependencies": [
        *("coverage[toml]~=7.4", "pytest~=8.1", "pytest-mock~=3.12", "pytest-randomly~=3.15"),
        *("pytest-rerunfailures~=14.0", "pytest-xdist[psutil]~=3.5"),
    ],
    "scripts": {
        "run": "pytest{env:HATCH_TEST_ARGS:} {args}",
        "run-cov": "coverage run -m pytest{env:HATCH_TEST_ARGS:} {args}",
    },
}


@dataclass(frozen=True, slots=True)
class _Environment:
    """One environment, with its templates and matrix resolved."""

    name: str
    table: Table
    matrix: Mapping[str, str]

    @property
    def python(self) -> str | None:
        wanted = self.matrix.get("python") or self.matrix.get("py") or str(self.table.get("python") or "")
        found = re.match(r"3\.\d{1,2}", wanted)
        return found[0] if found else None


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    before, rest = split_options(words[1:], ("-e", "--env", "-p", "--project", "--config", "--data-dir", "--cache-dir"))
    chosen = before.value("-e", "--env", default="default")
    found = manifest.read(context)
    environments = _tables(found)
    match rest:
        case ["run", *arguments]:
            while arguments and arguments[0][:1] in "+-" and len(arguments) > 1:
                arguments = arguments[1:]  # the wanted Python decides what is run from the matrix
            return _run(arguments, chosen, environments, found, again)
        case ["env", "run", *arguments]:
            options, command = split_options(arguments, _ENV_RUN_VALUED)
            if not command:
                raise Unfollowed("it names no command")
            name = options.value("-e", "--env", default=chosen)
            return _run([f"{name}:{command[0]}", *command[1:]], chosen, environments, found, again)
        case ["env", "create", *names]:
            environment, notes = _select(next(iter(names), chosen), environments, context)
            return context.result(packages=_packages(environment, found), python=environment.python, notes=notes)
        case ["test", *arguments]:
            return _test(arguments, environments, found, again)
        case ["fmt", *arguments]:
            lints, formats = {"-l", "--linter"} & set(arguments), {"-f", "--formatter"} & set(arguments)
            plain = " ".join(word for word in arguments if word not in ("--check", "-l", "--linter", "-f", "--formatter"))
            parts = ["ruff check . "] if lints or not formats else []
            parts += ["ruff format --check . "] if formats or not lints else []
            inner = again("\n".join((part + plain).strip() for part in parts), context)
            return replace(inner, packages=merge(Packages(requirements=("ruff",)), inner.packages))
        case ["build", *_]:
            return context.result(*manifest.BUILD)
        case ["env" | "config" | "python" | "version" | "dep" | "self", *_]:
            return context.result()
    return None


def _tables(found: Manifest) -> dict[str, Table]:
    """Environments by name, merged with their templates."""
    own = read_toml(found.context.text("hatch.toml"))
    if own is None:
        raise Unfollowed("hatch.toml is not valid TOML")
    raw: dict[str, object] = {**found.table("tool", "hatch", "envs"), **as_table(own.get("envs"))}
    raw.setdefault("default", {})
    test = as_table(raw.get("hatch-test"))
    raw["hatch-test"] = {**_TEST, **test, "scripts": {**as_table(_TEST["scripts"]), **as_table(test.get("scripts"))}}

    def settled(name: str, above: tuple[str, ...]) -> Table:
        own = as_table(raw.get(name))
        around = found.context.steps.enter(name, above)
        template = str(own.get("template") or ("default" if name not in ("default", "hatch-test") else name))
        if template == name or own.get("detached") is True or template not in raw:
            return own
        base = {key: value for key, value in settled(template, around).items() if key != "matrix"}
        scripts = {**as_table(base.get("scripts")), **as_table(own.get("scripts"))}
        env = {**as_table(base.get("env-vars")), **as_table(own.get("env-vars"))}
        return {**base, **own, "scripts": scripts, "env-vars": env}

    return {name: settled(name, ()) for name in raw}


def _select(name: str, environments: Mapping[str, Table], context: ShellContext) -> tuple[_Environment, tuple[str, ...]]:
    """The environment of this name (in a matrix, the one for the wanted Python), and notes on the others."""
    bare = name if name in environments else name.partition(".")[0]
    if bare not in environments:
        raise Unfollowed(f"it has no environment {name[:60]}")
    table = environments[bare]
    made: dict[str, dict[str, str]] = {}
    for row in tables(table.get("matrix")):
        axes = {str(key): strings(values) for key, values in row.items()}
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
    chosen, left_out = one_of_each(list(made), [(bare, one.python) for one in settled], context.python)
    notes = (f"environments of hatch's matrix are left out: {left_out}",) if left_out else ()
    return next(one for one in settled if one.name == chosen[0]), notes


def _run(words: Sequence[str], chosen: str, environments: Mapping[str, Table], found: Manifest, again: Again) -> Followed:
    if not words:
        raise Unfollowed("it names no command")
    name, colon, command = words[0].rpartition(":")
    if not (colon and (name in environments or name.partition(".")[0] in environments)):
        name, command = chosen, words[0]
    environment, notes = _select(name, environments, found.context)
    return _follow_script(environment, command, words[1:], notes, found, again)


def _test(arguments: list[str], environments: Mapping[str, Table], found: Manifest, again: Again) -> Followed:
    options, rest = split_options(arguments, _TEST_VALUED)
    wanted = (re.match(r"3\.\d+", value) for value in options.values("-py", "--python"))
    asked = next((match[0] for match in wanted if match), None)
    found = replace(found, context=replace(found.context, python=asked or found.context.python))
    environment, notes = _select("hatch-test", environments, found.context)
    script = "run-cov" if options.has("-c", "--cover", "--cover-quiet") else "run"
    default = strings(environment.table.get("default-args")) or ["tests"]
    extra = strings(environment.table.get("extra-args"))
    inner = _follow_script(environment, script, [*extra, *(rest or default)], notes, found, again)
    return replace(inner, python=environment.python or asked or inner.python)


def _follow_script(
    environment: _Environment, name: str, arguments: Sequence[str], notes: tuple[str, ...], found: Manifest, again: Again
) -> Followed:
    """Follow a script of an environment. A name that is not a script begins a command line."""
    context, table = found.context, environment.table
    scripts = {key: [form] if isinstance(form, str) else form for key, form in as_table(table.get("scripts")).items()}
    named = NamedScripts(scripts, context.steps, True, None, lambda text, given: _field(text, environment, given, context))
    text = named.text(name, arguments) if name in scripts else shlex.join([name, *arguments])
    env = {key: _field(str(value), environment, [], context) for key, value in as_table(table.get("env-vars")).items()}
    inner = again(text, replace(context.with_env(env), python=environment.python or context.python))
    if table.get("overrides"):
        notes = (*notes, f"overrides of hatch's environment {environment.name[:60]} are not supported")
    packages = merge(_packages(environment, found), inner.packages)
    python = environment.python or inner.python
    return replace(inner, packages=replace(packages, python=python), python=python, notes=(*notes, *inner.notes))


def _field(text: str, environment: _Environment, arguments: Sequence[str], context: ShellContext) -> str:
    """Context formatting: `{args:tests}`, `{env:NAME:default}`, `{matrix:django}`, `{root}`."""

    def fill(match: re.Match[str]) -> str:
        kind, name, default = match[1], match[2] or "", match[3]
        if kind == "args":
            return shlex.join(arguments) or ":".join(part for part in (name, default) if part)
        if kind in ("env", "matrix"):
            known = context.env if kind == "env" else environment.matrix
            if name not in known and default is None:
                raise Unfollowed(f"the value of `{match[0][:60]}` is not known")
            return known.get(name, default or "")
        return {"root": ".", "/": "/"}.get(kind, "~")

    return _FIELD.sub(fill, text).strip()


def _packages(environment: _Environment, found: Manifest) -> Packages:
    table = environment.table
    requirements = [*strings(table.get("dependencies")), *strings(table.get("extra-dependencies"))]
    requirements = [_field(item, environment, [], found.context) for item in requirements]
    installed = table.get("skip-install") is not True and table.get("detached") is not True
    return merge(
        found.project(strings(table.get("features"))) if installed else Packages(),
        found.of_groups(strings(table.get("dependency-groups"))),
        Packages(requirements=tuple(item for item in requirements if "://" not in item)),
    )
