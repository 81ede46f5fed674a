"""Detects the tests of a repository in another language by its package.json, go.mod, Cargo.toml, pom.xml or Gradle files.

Pure: takes file names and texts. `read_command` classifies a single command line; `detect` chooses a check for a repository
whose workflows show none.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agent.contract.verdicts import Check, Reader
from sandbox.base import Packages

FOLDERS = 4  # with a package.json of their own, read if the root has none
ENVIRONMENT = {"CI": "true"}  # as in every CI: no watch mode, no rewriting of snapshots
_RUNNERS = ("vitest", "jest", "mocha")
_JS_TEST = re.compile(
    r"(?:^|/)(?:__tests__/.*|test/.*|tests/.*|[^/]*[.-](?:test|spec))\.[cm]?[jt]sx?$|(?:^|/)test\.[cm]?[jt]s$"
)
_PLACEHOLDER = "no test specified"  # of `npm init`


@dataclass(frozen=True, slots=True)
class DetectedEcosystem:
    """`check` runs the tests of the ecosystem that was found, `packages` is what they need, `notes` say what was guessed."""

    check: Check
    packages: Packages = field(default_factory=Packages)
    notes: tuple[str, ...] = ()


def detect(paths: Collection[str], texts: Mapping[str, str]) -> DetectedEcosystem | None:
    """`texts` holds the manifests of the root and of folders by path. None if no ecosystem is recognized."""
    if "package.json" in texts and (found := _node("", texts["package.json"], paths)) is not None:
        return found
    if "go.mod" in texts and any(path.endswith("_test.go") for path in paths):
        return DetectedEcosystem(Check("tests", "go test ./...", "go"))
    if "Cargo.toml" in texts:
        return DetectedEcosystem(Check("tests", "cargo test", "rust"))
    if "pom.xml" in texts:
        command = "./mvnw -B -o test" if "mvnw" in paths else "mvn -B -o test"
        return DetectedEcosystem(
            Check("tests", command, "java"),
            notes=("Maven runs offline, with the dependencies in its local repository",),
        )
    if "build.gradle" in texts or "build.gradle.kts" in texts:
        command = "./gradlew --offline test" if "gradlew" in paths else "gradle --offline test"
        return DetectedEcosystem(
            Check("tests", command, "exit"), notes=("Gradle runs offline, with the dependencies in its cache",)
        )
    for path in sorted(path for path in texts if path.endswith("/package.json"))[:FOLDERS]:
        if (found := _node(posixpath.dirname(path), texts[path], paths)) is not None:
            return found
    return None


def read_command(words: Sequence[str], script: str) -> tuple[Reader, str] | None:
    """Reader and program of one command line, None if it is not recognized; `script` is the text of its package.json."""
    match list(words):
        case [("npm" | "yarn" | "pnpm" | "bun") as manager, *rest]:
            name = _script_name(manager, rest)
            inner = _scripts(script).get(name, "") if name else ""
            if _is_node_runner(inner) or (name and _is_node_runner(" ".join(rest))):
                return "javascript", manager
            return "exit", manager
        case [("npx" | "bunx") as program, *rest]:
            return ("javascript" if _is_node_runner(" ".join(rest)) else "exit"), program
        case ["node", *rest]:
            return ("javascript" if "--test" in rest else "exit"), "node"
        case [program, *_] if program.rsplit("/", 1)[-1] in _RUNNERS:
            return "javascript", program.rsplit("/", 1)[-1]
        case ["go", "test", *_]:
            return "go", "go"
        case ["cargo", *rest] if "test" in rest[:2]:
            return "rust", "cargo"
        case [("mvn" | "./mvnw") as program, *rest] if {"test", "verify", "package", "install"} & set(rest):
            return "java", program
    return None


def installs(words: Sequence[str]) -> Packages | None:
    """What one command line of a package manager would install; None when it installs nothing."""
    match list(words):
        case ["npm", "ci" | "install" | "i" | "install-ci-test", *rest] if not _plain(rest):
            return Packages(node=(".",))
        case ["yarn" | "pnpm" | "bun", "install", *rest] if not _plain(rest):
            return Packages(node=(".",))
        case ["yarn"]:
            return Packages(node=(".",))
        case ["corepack", "enable", *_] | [("npm" | "pnpm"), "config" | "set", *_]:
            return Packages()
        case ["npm" | "yarn" | "pnpm", ("install" | "i" | "global"), *rest] if {"-g", "--global", "add"} & {*rest}:
            return Packages()
        case ["go", "mod", "download" | "tidy" | "vendor", *_] | ["go", "get", *_] | ["cargo", "fetch", *_]:
            return Packages()
        case ["go", "install", *rest] if any("@" in word for word in rest):  # a tool from elsewhere, as `cargo install` is
            return Packages()
        case ["cargo", "install", *rest] if _plain(rest) and "--path" not in rest:
            return Packages()
    return None


def _node(folder: str, text: str, paths: Collection[str]) -> DetectedEcosystem | None:
    scripts, tables = _scripts(text), _tables(text)
    inner = scripts.get("test", "")
    own = [path for path in paths if path.startswith(f"{folder}/" if folder else "")]
    cwd, packages = folder or ".", Packages(node=(folder or ".",) if tables else ())
    if inner and _PLACEHOLDER not in inner:
        reader: Reader = "javascript" if _is_node_runner(inner) else "exit"
        return DetectedEcosystem(Check("tests", "npm test", reader, cwd=cwd, env=ENVIRONMENT), packages)
    for runner, command in (("vitest", "npx vitest run"), ("jest", "npx jest"), ("mocha", "npx mocha")):
        if runner in tables:
            note = f"package.json has no test script; `{command}` is run because the project depends on {runner}"
            return DetectedEcosystem(Check("tests", command, "javascript", cwd=cwd, env=ENVIRONMENT), packages, (note,))
    if any(_JS_TEST.search(path) for path in own):
        note = "package.json has no test script and names no runner; Node.js's own test runner is used"
        return DetectedEcosystem(Check("tests", "node --test", "javascript", cwd=cwd, env=ENVIRONMENT), packages, (note,))
    return None


def _is_node_runner(text: str) -> bool:
    """Whether the text of a script calls a runner whose results can be collected."""
    if re.search(rf"(?<![\w.-])(?:{'|'.join(_RUNNERS)})(?![\w.-])", text):
        return True
    for command in re.split(r"[;&|]", text):
        node = re.search(r"(?<![\w-])(?:node|tsx|ts-node|c8)\b", command)
        if node and re.compile(r"--test(?![\w-])").search(command, node.end()):
            return True
    return False


def _script_name(manager: str, words: Sequence[str]) -> str:
    plain = _plain(words)
    if not plain:
        return ""
    if plain[0] in ("t", "tst", "test"):
        return "test"
    if plain[0] in ("run", "run-script") or (manager != "npm" and plain[0] in ("exec", "dlx")):
        return plain[1] if len(plain) > 1 else ""
    return plain[0] if manager != "npm" or plain[0] == "exec" else ""


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _scripts(text: str) -> dict[str, str]:
    scripts = _object(text).get("scripts")
    return {name: value for name, value in scripts.items() if isinstance(value, str)} if isinstance(scripts, dict) else {}


def _tables(text: str) -> frozenset[str]:
    """The names of the dependencies in a package.json."""
    tables = (_object(text).get(key) for key in ("dependencies", "devDependencies", "optionalDependencies", "workspaces"))
    return frozenset(str(name) for table in tables if isinstance(table, dict | list) for name in table)


def _object(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
