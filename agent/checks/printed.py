"""Parses the output of test runners for other languages into verdicts and ordered failures.

Pure; hostile code can forge the text, so the exit code has the last word. `root` is the repository's path in the sandbox.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agent.contract.verdicts import Failure, Frame, Reader, Verdict, VerdictId
from agent.guest.text import ID_LIMIT, LINE_LIMIT
from agent.source.test_files import is_test

Results: TypeAlias = tuple[dict[VerdictId, Verdict], tuple[Failure, ...]]
_GO_VERDICTS = {"pass": Verdict.PASSED, "fail": Verdict.FAILED, "skip": Verdict.SKIPPED}
_GO_LOCATION = re.compile(r"^\s*(?:panic: .*(?<![\w./-]))?([\w./-]+\.go):(\d{1,9}):? ?(.*)")
_GO_PART = re.compile(r"[./]")
_GO_NOISE = re.compile(r"^\s*(?:=== |--- |PASS\b|FAIL\b|ok\s|exit status)")


def read_go(text: str, root: str) -> Results:
    """The output of `go test -json` (`cmd/test2json`), including packages that fail to build.

    A test id starts with its package: `example.com/a/pkg.TestAdd/case`.
    """
    verdicts: dict[VerdictId, Verdict] = {}
    output: dict[VerdictId, list[str]] = {}
    tests: set[VerdictId] = set()
    for package, test, action, output_line in _go_events(text):
        id_ = VerdictId(f"{package}.{test}" if test else package)
        if test:
            tests.add(id_)
        if output_line:
            output.setdefault(id_, []).append(output_line.rstrip("\n"))
        if action in _GO_VERDICTS and (test or action == "fail") and verdicts.get(id_) is not Verdict.FAILED:
            verdicts[id_] = _GO_VERDICTS[action]
    failed_ids = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    # A package, or a test with subtests, fails because of its members, which have ids of their own.
    above = {name for id_ in failed_ids for name in _go_above(id_)}.intersection(failed_ids)
    for id_ in above:
        del verdicts[id_]
    for id_ in (id_ for id_ in failed_ids if id_ not in above and id_ not in tests):
        verdicts[id_] = Verdict.ERROR
    return verdicts, tuple(_go_failure(id_, output.get(id_, []), root) for id_ in failed_ids if id_ not in above)


def _go_above(id_: VerdictId) -> Iterator[VerdictId]:
    """The ids of the packages and tests that may contain this one."""
    for end in _GO_PART.finditer(id_[:ID_LIMIT]):
        yield VerdictId(id_[: end.start()])


def _go_events(text: str) -> Iterator[tuple[str, str, str, str]]:
    """(package, test, action, output) of each line that is an event."""
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("Action"), str):
            # Since Go 1.24, build output has the import path instead of the package.
            package = str(event.get("Package") or str(event.get("ImportPath", "")).partition(" ")[0])
            yield package, str(event.get("Test") or ""), event["Action"], str(event.get("Output") or "")


def _go_failure(id_: VerdictId, lines: list[str], root: str) -> Failure:
    shown = [line for line in lines if not _GO_NOISE.match(line) and line.strip()]
    frames = []
    message = next((line.strip() for line in shown), "it failed")
    for line in shown:
        if found := _GO_LOCATION.match(line[:LINE_LIMIT]):
            path = found[1].removeprefix(f"{root}/")
            if not path.startswith("/"):
                frames.append(Frame(path, int(found[2])))
    first = _GO_LOCATION.match(shown[0][:LINE_LIMIT]) if shown else None
    if first and first[3]:
        message = first[3]
    return Failure(id_, message, "\n".join(lines), tuple(reversed(frames)))


_JAVA_CLASS = re.compile(
    r"^(?:\[\w+\] +)?Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9}), Skipped: (\d{1,9}),? [^T]*Time elapsed: "
    r"(?:.* )?in ([\w.$]+)\s*$"
)
_JAVA_FRAME = re.compile(r"^\s+at (?:[\w.@]+/)?([\w.$]+)\.([\w$<>]+)\((\w+\.(?:java|kt|scala|groovy)):(\d{1,9})\)")
_JAVA_SUITE = re.compile(r"^(?:\[\w+\] +)?Running ([\w.$]+)\s*$")


def read_java(text: str, root: str) -> Results:
    """The output of Maven's surefire. Ids are classes, because it does not print passing methods; one failure per class.

    Only frames in the class's own packages are kept, with paths below Maven's source folders.
    """
    verdicts: dict[VerdictId, Verdict] = {}
    details: dict[str, list[str]] = {}
    running = ""
    for line in (each[:LINE_LIMIT] for each in text.splitlines()):
        if found := _JAVA_SUITE.match(line):
            running = found[1]
        elif found := _JAVA_CLASS.match(line):
            run, failed, broken, skipped = map(int, found.groups()[:4])
            running, id_ = found[5], VerdictId(found[5])
            verdict = Verdict.FAILED if failed or broken else Verdict.SKIPPED if skipped == run else Verdict.PASSED
            verdicts[id_] = Verdict.FAILED if verdicts.get(id_) is Verdict.FAILED else verdict
        elif running and not line.startswith("[INFO]"):
            details.setdefault(running, []).append(line)
    failed_ids = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    return verdicts, tuple(_java_failure(id_, details.get(id_, [])) for id_ in failed_ids)


def _java_failure(id_: VerdictId, lines: list[str]) -> Failure:
    first = next((at for at, line in enumerate(lines) if "<<<" in line), -1)
    message = next((line.strip() for line in lines[first + 1 :] if line.strip()), "it failed")
    home = id_.split(".")[:-1][:2]
    frames = []
    for line in lines:
        found = _JAVA_FRAME.match(line)
        if found and found[1].split(".")[:-1][:2] == home:
            file = "/".join([*found[1].partition("$")[0].split(".")[:-1], found[3]])
            frames.append(Frame(f"src/{'test' if is_test(found[3]) else 'main'}/java/{file}", int(found[4]), found[2]))
    return Failure(id_, message, "\n".join(lines).strip(), tuple(reversed(frames)))


_RUST_TARGET = re.compile(r"^\s*(?:Running (?:unittests )?(\S+\.rs) \(|(Doc-tests) )")
_RUST_TEST = re.compile(r"^test (.+?)(?: - should panic| - compile(?: fail)?)? \.\.\. (ok|FAILED|ignored)\b")
_RUST_BLOCK = re.compile(r"^---- (.+?) (?:stdout|stderr) ----$")
_RUST_END = re.compile(r"^(?:failures:|test result:|successes:)")
_RUST_LOCATION = re.compile(r"(?:panicked at (?:'.*', )?|--> |^\s*at (?:\./)?)([^\s:']+\.rs):(\d{1,9})(?::\d+)?")
_RUST_PANIC = re.compile(r"^thread '.{0,500}' (?:\(\d+\) )?panicked at (?:'(?P<old>.*)', )?")
_RUST_VERDICTS = {"ok": Verdict.PASSED, "FAILED": Verdict.FAILED, "ignored": Verdict.SKIPPED}


def read_rust(text: str, root: str) -> Results:
    """The output of `cargo test`. If a test has two results, the worse one counts.

    A test id starts with its target: `src/lib.rs::tests::adds`, `tests/it.rs::adds`; a documentation example keeps cargo's
    name: `src/lib.rs - add (line 3)`.
    """
    verdicts: dict[VerdictId, Verdict] = {}
    blocks: dict[VerdictId, list[str]] = {}
    target, block = "", None
    for line in (each[:LINE_LIMIT] for each in text.splitlines()):
        if found := _RUST_TARGET.match(line):
            target, block = found[1] or "", None
        elif found := _RUST_TEST.match(line):
            id_ = _rust_id(target, found[1])
            if verdicts.get(id_) is not Verdict.FAILED:
                verdicts[id_] = _RUST_VERDICTS[found[2]]
        elif found := _RUST_BLOCK.match(line):
            block = blocks.setdefault(_rust_id(target, found[1]), [])
        elif _RUST_END.match(line):
            block = None
        elif block is not None:
            block.append(line)
    failed_ids = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    return verdicts, tuple(_rust_failure(id_, blocks.get(id_, [])) for id_ in failed_ids)


def _rust_id(target: str, name: str) -> VerdictId:
    return VerdictId(f"{target}::{name}" if target else name)


def _rust_failure(id_: VerdictId, lines: list[str]) -> Failure:
    message = ""
    panic = next(((at, found) for at, line in enumerate(lines) if (found := _RUST_PANIC.match(line))), None)
    if panic is not None:
        # Since Rust 1.73 the message is below the location.
        message = panic[1]["old"] or " ".join(below.strip() for below in lines[panic[0] + 1 : panic[0] + 4])
        message = message.partition(" note: run with")[0]
    message = message or next((line.strip() for line in lines if line.strip()), "it failed")
    located = (found for line in lines if (found := _RUST_LOCATION.search(line)))
    frames = [Frame(found[1], int(found[2])) for found in located if not found[1].startswith("/")]
    return Failure(id_, message, "\n".join(lines).strip(), tuple(reversed(frames)))


READERS: Mapping[Reader, Callable[[str, str], Results]] = {"go": read_go, "rust": read_rust, "java": read_java}
"""The readers by name (`Check.reader`)."""
