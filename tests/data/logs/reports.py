"""Reduces what tools report of a run (JUnit XML, JSON) to the ids of its failures. Reads reports only, never what was printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from case import Failures, told

Reduce = Callable[[Path], Failures]


def pytest_log(project: Path) -> Failures:
    """`pytest --report-log report.jsonl` (pytest-reportlog): node ids and where each crashed."""
    found: dict[str, dict[str, Any]] = {}
    for raw in (project / "report.jsonl").read_text().split("\n"):
        report = json.loads(raw) if raw.strip() else {}
        if (
            report.get("$report_type") not in ("TestReport", "CollectReport", "SubTestReport", "SubtestReport")
            or report.get("outcome") != "failed"
        ):
            continue
        crash = _place(report["longrepr"]) if isinstance(report.get("longrepr"), dict) else None
        path = crash["path"].replace(str(project) + "/", "") if crash else ""
        found.setdefault(report["nodeid"], told(report["nodeid"], path, crash["lineno"] if crash else None))
    return list(found.values())


def _place(longrepr: dict[str, Any]) -> dict[str, Any] | None:
    """Where pytest says that it failed: of the last error of a chain its last shown entry, else where it was raised."""
    traceback = longrepr["chain"][-1][0] if longrepr.get("chain") else longrepr.get("reprtraceback") or {}
    entries = traceback.get("reprentries") or [{}]
    return (entries[-1].get("data") or {}).get("reprfileloc") or longrepr.get("reprcrash")


def junit(name: str, identify: Callable[[dict[str, str]], str]) -> Reduce:
    """A JUnit XML file, or a folder's TEST-*.xml; `identify` makes an id of a test case's attributes."""

    def reduce(project: Path) -> Failures:
        files = sorted((project / name).glob("TEST-*.xml")) if (project / name).is_dir() else [project / name]
        found = []
        for file in files:
            for case in ElementTree.parse(file).iter("testcase"):
                if case.find("failure") is not None or case.find("error") is not None:
                    found.append(told(identify(case.attrib)))
        return found

    return reduce


def jest(project: Path) -> Failures:
    """`jest --json --outputFile=report.json`; vitest's JSON reporter writes the same."""
    found = []
    for file in json.loads((project / "report.json").read_text())["testResults"]:
        path = file["name"].replace(str(project) + "/", "")
        failed = [test for test in file["assertionResults"] if test["status"] == "failed"]
        found += [told(" > ".join([*test["ancestorTitles"], test["title"]]), path) for test in failed]
        if file["status"] == "failed" and not failed:
            found.append(told(path, path))
    return found


def mocha(project: Path) -> Failures:
    """`mocha --reporter json` tells titles joined by blanks: the ids are compared so (see "joined")."""
    report = json.loads((project / "report.json").read_text())
    return [told(test["fullTitle"]) | {"joined": " "} for test in report["failures"]]


def node_junit(project: Path) -> Failures:
    """`node --test --test-reporter=junit`: suites are nested elements."""
    found = []

    def walk(element: ElementTree.Element, above: tuple[str, ...]) -> None:
        for child in element:
            if child.tag == "testsuite":
                walk(child, (*above, child.attrib["name"]))
            elif child.tag == "testcase" and child.find("failure") is not None:
                found.append(told(" > ".join((*above, child.attrib["name"]))))

    walk(ElementTree.parse(project / "report.xml").getroot(), ())
    return found


def go(project: Path) -> Failures:
    """`go test -json`: a failed test that has failed subtests is told too, as Go does."""
    found = []
    for raw in (project / "report.json").read_text().split("\n"):
        event = json.loads(raw) if raw.startswith("{") else {}
        if event.get("Action") == "fail" and event.get("Test"):
            found.append(told(f"{event['Package']} {event['Test']}"))
    return found


def go_vet(project: Path) -> Failures:
    """`go vet -json`: a JSON object for each package, behind a comment."""
    found = re.findall(r'"posn": "([^"]+):(\d+):(\d+)"', (project / "report.json").read_text())
    return [located(path.replace(str(project) + "/", ""), int(line), int(column), "error") for path, line, column in found]


def cargo_tests(project: Path) -> Failures:
    """`cargo test -- -Z unstable-options --format json`."""
    found = []
    for raw in (project / "report.json").read_text().split("\n"):
        event = json.loads(raw) if raw.startswith("{") else {}
        if event.get("type") == "test" and event.get("event") == "failed":
            found.append(told(event["name"]))
    return found


def cargo_build(project: Path) -> Failures:
    """`cargo build --message-format json`."""
    found = []
    for raw in (project / "report.json").read_text().split("\n"):
        event = json.loads(raw) if raw.startswith("{") else {}
        message = event.get("message") or {}
        if event.get("reason") == "compiler-message" and message.get("level") == "error" and message["spans"]:
            span = next(each for each in message["spans"] if each["is_primary"])
            code = (message.get("code") or {}).get("code") or "error"
            found.append(located(span["file_name"], span["line_start"], span["column_start"], code))
    return found


def ruff(project: Path) -> Failures:
    """`ruff check --output-format json`."""
    return [
        located(each["filename"].replace(str(project) + "/", ""), each["location"]["row"], each["location"]["column"], each["code"] or "invalid-syntax")
        for each in json.loads((project / "report.json").read_text())
    ]  # fmt: skip


def mypy(columns: bool) -> Reduce:
    """`mypy --output json`, a finding a line; its text has columns only when asked for."""

    def reduce(project: Path) -> Failures:
        found = []
        for raw in (project / "report.json").read_text().split("\n"):
            each = json.loads(raw) if raw.startswith("{") else {}
            if each.get("severity") == "error":
                found.append(located(each["file"], each["line"], each["column"] + 1 if columns else None, each["code"]))
        return found

    return reduce


def pyright(project: Path) -> Failures:
    """`pyright --outputjson`: its lines and columns begin at 0."""
    return [
        located(
            each["file"].replace(str(project) + "/", ""), start["line"] + 1, start["character"] + 1, each.get("rule") or "error"
        )
        for each in json.loads((project / "report.json").read_text())["generalDiagnostics"]
        if each["severity"] == "error"
        for start in (each["range"]["start"],)
    ]


def pylint(project: Path) -> Failures:
    """`pylint --output-format json`."""
    return [
        located(each["path"], each["line"], each["column"], each["message-id"])
        for each in json.loads((project / "report.json").read_text())
    ]


def eslint(project: Path) -> Failures:
    """`eslint --format json`."""
    return [
        located(file["filePath"].replace(str(project) + "/", ""), each["line"], each["column"], each["ruleId"] or "error")
        for file in json.loads((project / "report.json").read_text())
        for each in file["messages"]
        if each["severity"] == 2
    ]


def gcc(project: Path) -> Failures:
    """`gcc -fdiagnostics-format=json`: a JSON list in one of the lines."""
    raw = next(line for line in (project / "report.json").read_text().split("\n") if line.startswith("["))
    found = []
    for each in json.loads(raw):
        if each["kind"] == "error":
            caret = each["locations"][0]["caret"]
            found.append(located(caret["file"], caret["line"], caret["column"], each.get("option") or "error"))
    return found


def lines(name: str, shape: str) -> Reduce:
    """A file with a name a line (`prettier --list-different`, `gofmt -l`); `shape` makes the id of it."""

    def reduce(project: Path) -> Failures:
        told_names = [line.strip() for line in (project / name).read_text().split("\n") if line.strip()]
        return [told(shape.format(each), each) for each in told_names]

    return reduce


def ruff_format(project: Path) -> Failures:
    """`ruff format --check --output-format json` (preview), as ruff reports."""
    names = sorted(
        {each["filename"].replace(str(project) + "/", "") for each in json.loads((project / "report.json").read_text())}
    )
    return [told(f"{name} format", name) for name in names]


def flake8(project: Path) -> Failures:
    """`flake8 --format` with a shape of our own: its report is what the format string asks for, in tabs."""
    found = []
    for raw in (project / "report.txt").read_text().split("\n"):
        if raw:
            path, line, column, code = raw.split("\t")
            found.append(located(re.sub(r"^\./", "", path), int(line), int(column), code))
    return found


def located(path: str, line: int, column: int | None, code: str) -> dict[str, Any]:
    place = f"{path}:{line}:{column}" if column is not None else f"{path}:{line}"
    return told(f"{place} {code}", path, line)
