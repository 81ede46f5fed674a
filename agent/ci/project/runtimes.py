"""The runtimes of other languages: those that a plan needs, the versions in the sandbox, and what to do about a missing one.

The sandbox fetches no runtime, so a note names the version that ran. Where one is missing, a sentence says how to get it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.ci.project.commands import names_tests
from agent.contract.outcome import Outcome
from agent.contract.verdicts import Check
from agent.guest.text import one_line
from agent.report.endings import Ending
from sandbox.base import Command, DeadlinePassed, Workspace

SECONDS = 20.0  # for all of them


@dataclass(frozen=True, slots=True)
class _Runtime:
    """`programs`: first the one that runs its tests. `asks` prints its version, `calls` finds its programs in shell text.

    `package` is Debian's; `states` finds the wanted version in the file `manifest`.
    """

    programs: tuple[str, ...]
    asks: str
    calls: re.Pattern[str]
    package: str
    manifest: str
    states: re.Pattern[str]


_NODE = 'PATH="$PWD/node_modules/.bin:$PATH" node --version'  # as npm's scripts find it
_RUNTIMES: Mapping[str, _Runtime] = {
    "Node.js": _Runtime(
        ("node", "npm", "npx"), _NODE, re.compile(r"(?<![\w./-])(?:node|npm|npx|yarn|pnpm|corepack)(?![\w./-])"),
        "nodejs npm", "package.json", re.compile(r'"engines"\s*:\s*\{[^{}]*"node"\s*:\s*"([^"\n]{1,40})"'),
    ),
    "Go": _Runtime(
        ("go", "gofmt"), "go version", re.compile(r"(?<![\w./-])go (?:test|build|run|vet|generate|install|get|mod|list)\b"),
        "golang-go", "go.mod", re.compile(r"(?m)^go[ \t]+(\d[\w.]{0,20})"),
    ),
    "Rust": _Runtime(
        ("cargo", "rustc"), "rustc --version", re.compile(r"(?<![\w./-])(?:cargo|rustc)(?![\w./-])"),
        "cargo", "Cargo.toml", re.compile(r'(?m)^rust-version\s*=\s*"([\d.]{1,20})"'),
    ),
    "Java": _Runtime(
        ("java", "javac", "mvn"), "java -version", re.compile(r"(?<![\w./-])(?:\./)?(?:mvnw?|gradlew?|javac?)(?![\w./-])"),
        "default-jdk maven", "pom.xml", re.compile(r"<(?:maven\.compiler\.release|java\.version)>\s*(\d[\d.]{0,10})\s*<"),
    ),
}  # fmt: skip
_DIRECT, _NPM = (re.compile(rf"(?<![\w./-])(?:{names})(?![\w./-])") for names in ("node", "npm|npx|yarn|pnpm|corepack"))
_READERS = {"javascript": "Node.js", "go": "Go", "rust": "Rust", "java": "Java"}


def tests_among(checks: Sequence[Check]) -> list[Check]:
    """The checks that test; all of them if none does."""
    return [check for check in checks if check.runs_tests or names_tests(check.command)] or list(checks)


def needed(checks: Sequence[Check], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The runtimes that the checks call, and those that the job asks for by version."""
    called = {name for check in checks for name in _called(check, check.commands)}
    return tuple(name for name in _RUNTIMES if name in called or name in wanted)


def runtime_of(program: str) -> str:
    """The runtime that a program belongs to; "" for any other program."""
    return next((name for name, runtime in _RUNTIMES.items() if program in runtime.programs), "")


def _called(check: Check, text: str) -> set[str]:
    own = {_READERS[check.reader]} if check.reader in _READERS else set[str]()
    return own | {name for name, runtime in _RUNTIMES.items() if runtime.calls.search(text)}


async def versions(workspace: Workspace, names: Sequence[str], cwd: str = ".", checks: Sequence[Check] = ()) -> dict[str, str]:
    """Name → "20.20.2" as the runtime reports it in a folder; "" for a missing one. Empty if one never answers.

    Where the tests among `checks` start `node` themselves, npm's does not count. Raises `SandboxError`.
    """
    if not names:
        return {}
    calls = "\n".join(check.command for check in tests_among(checks))
    is_direct = _DIRECT.search(calls) is not None and _NPM.search(calls) is None
    asks = {name: runtime.asks for name, runtime in _RUNTIMES.items()} | ({"Node.js": "node --version"} if is_direct else {})
    script = "\n".join(f"({asks[name]}) 2>&1 | tr '\\n' ' '; echo" for name in names)
    try:
        said = await workspace.run(Command(("/bin/sh", "-c", script), SECONDS, cwd))
    except DeadlinePassed:
        return {}
    lines = said.stdout.decode(errors="replace").splitlines()
    return {name: _version(line) for name, line in zip(names, lines, strict=False)}


def _version(line: str) -> str:
    """The version in "v20.20.2", "go version go1.22.1 linux/amd64", "rustc 1.70.0 (…)", 'openjdk version "17.0.9" …'."""
    found = re.search(r"(?:\bv|version (?:go|\")|rustc )(\d+(?:\.\d+)*)", line)
    return found[1] if found else ""


def version_notes(wanted: Mapping[str, str], there: Mapping[str, str]) -> tuple[str, ...]:
    """Notes on versions that differ from those the job asks for. Any version meets a range or a name ("lts/*", "stable")."""
    notes = []
    for name, version in wanted.items():
        exact = re.fullmatch(r"[v^~=]?\s*(\d+(?:\.\d+)*)(?:\.[xX*])*(?:-\w+)?", version.strip())
        if not there.get(name):
            notes.append(f"{name} {version} is required, but the sandbox has no {name}")
        elif exact and not f"{there[name]}.".startswith(f"{exact[1]}."):
            notes.append(f"{name} {there[name]} is used instead of {version}")
    return tuple(notes)


def node_version(wanted: Mapping[str, str], texts: Mapping[str, str], there: str) -> str:
    """The Node.js to install if `there` is another one than the job's, or one that package.json rules out; else ""."""
    job = re.fullmatch(r"v?(\d+)((?:\.\d+)*)(?:\.[xX*])*", wanted.get("Node.js", "").strip())
    if job is not None:
        return "" if f"{there}.".startswith(f"{job[1]}{job[2]}.") else f"{job[1]}{job[2]}"
    return next(iter(_lowest(texts)), "") if rules_out_node(texts, there) else ""


def rules_out_node(texts: Mapping[str, str], there: str) -> bool:
    """Whether `there` is older than every version that package.json allows."""
    majors = _lowest(texts)
    return bool(majors) and there.partition(".")[0].isdecimal() and int(there.partition(".")[0]) < min(map(int, majors))


def _lowest(texts: Mapping[str, str]) -> list[str]:
    """The lowest major version of each alternative in package.json's `engines` (">=22", "^20.9 || 22.x"); empty if unknown."""
    stated = _RUNTIMES["Node.js"].states.search(texts.get("package.json", ""))
    each = [re.match(r"\s*(?:>=|\^|~|=|v)*\s*(\d+)", alternative) for alternative in stated[1].split("||")] if stated else []
    return [found[1] for found in each if found is not None] if all(each) else []


def in_words(there: Mapping[str, str]) -> tuple[str, ...]:
    """ "Node.js 20.20.2" for the evidence."""
    return tuple(f"{name} {version}" for name, version in there.items() if version)


def without(
    checks: Sequence[Check], there: Mapping[str, str], wanted: Mapping[str, str], texts: Mapping[str, str], kind: str
) -> Ending | None:
    """Why none of the tests can run: each calls a runtime that is missing. None if one of them can.

    `there` has the runtimes that were looked for, `wanted` the versions that the job asks for, `texts` the repository's
    manifests; `kind` is the sandbox's name. Without tests, all checks count.
    """
    tests = tests_among(checks)
    gone = {name for name, version in there.items() if not version}
    lacking = [sorted(gone & _called(check, check.command)) if check.reader in ("exit", *_READERS) else [] for check in tests]
    return missing(lacking[0][0], wanted, texts, kind) if lacking and all(lacking) else None


def missing(name: str, wanted: Mapping[str, str], texts: Mapping[str, str], kind: str, there: str = "") -> Ending:
    """The ending for a runtime that is missing (or `there` in another version), with the way to get it in this sandbox."""
    runtime = _RUNTIMES[name]
    stated = runtime.states.search(texts.get(runtime.manifest, ""))
    version = one_line(wanted.get(name, "") or (stated[1] if stated else ""), 40)
    named = f"{name} {version}".strip()
    has = f"version {there}" if there else f"no program `{runtime.programs[0]}`"
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The tests need {named}, but the sandbox has {has}.",
        _WAYS.get(kind, _WAYS["local"]).format(named=named, package=runtime.package),
    )


_WAYS = {
    "local": "Ask the operator of Selfheal to install {named} for the sandbox (on Debian: `apt-get install {package}`).",
    "docker": "Ask the operator of Selfheal for an image that has {named} and Python 3 (`SELFHEAL_SANDBOX_IMAGE`).",
    "e2b": "Ask the operator of Selfheal to build the template of E2B's machines with it (`python -m deploy.e2b.build`).",
}
