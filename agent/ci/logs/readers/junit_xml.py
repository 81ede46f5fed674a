"""Reads JUnit XML that a job printed: ids in the form of the tool that wrote it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException, ElementTree

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure

TOOL = "junit"
LIMIT = 2 * 1024 * 1024  # characters of one report
REPORTS = 200  # that are parsed of one log
_BEGIN = re.compile(r"<(?P<root>testsuites?)\b")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found: list[ToolReport] = []
    closings = [at for at, line in enumerate(lines) if "</testsuite" in line]
    at = parsed = 0
    while closings and at <= closings[-1]:
        begin = _BEGIN.search(lines[at]) if "<testsuite" in lines[at] else None
        if begin is None:
            at += 1
            continue
        closing = f"</{begin['root']}>"
        stop = next((line for line in islice(closings, bisect_left(closings, at), None) if closing in lines[line]), None)
        if stop is None:  # a suite that is never closed: no later one with this root is either
            break
        text = "\n".join(lines[at : stop + 1])[begin.start() : LIMIT]
        red = parsed < REPORTS and ("<failure" in text or "<error" in text)
        parsed += red
        failures = read_report(text[: text.rfind(closing) + len(closing)]) if red else ()
        if failures:
            found.append(
                ToolReport(TOOL, Cause.TEST, f"JUnit report: {len(failures)} failed", failures, (range(at, stop + 1),))
            )
        at = stop + 1
    return tuple(found)


def read_report(xml: str) -> tuple[LoggedFailure, ...]:
    """The failures of one JUnit XML report; none if it is malformed or defines entities."""
    try:
        root = ElementTree.fromstring(xml[:LIMIT], forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        return ()
    return tuple(_failures(root, (), False))


def _failures(element: Element, above: tuple[str, ...], pytest: bool) -> Iterator[LoggedFailure]:
    stack: list[tuple[Element, tuple[str, ...], bool]] = [(element, above, pytest)]
    while stack:
        node, names, by_pytest = stack.pop()
        if node.tag == "testcase":
            why = next((child for child in node if child.tag in ("failure", "error")), None)
            if why is not None:
                yield _failure(node, why, names, by_pytest)
            continue
        if node.tag == "testsuite":
            names, by_pytest = (*names, node.get("name", "")), by_pytest or node.get("name", "") == "pytest"
        stack += [(child, names, by_pytest) for child in reversed(node)]


def _failure(case: Element, why: Element, suites: tuple[str, ...], pytest: bool) -> LoggedFailure:
    name, group, path = case.get("name", ""), case.get("classname", ""), case.get("file", "")
    text = why.text or ""
    message = why.get("message") or text
    if pytest:
        return failure(_node_id(group, name, path), message, "pytest", path or _module(group), None, text)
    if group in ("", "test") and suites:  # node's suites are nested and carry no class
        return failure(" > ".join((*suites, name)), message, TOOL, path, None, text)
    if group == "test":
        return failure(name, message, TOOL, path, None, text)
    return failure(f"{group}.{name}" if group else name, message, TOOL, path, case.get("line"), text)


def _node_id(group: str, name: str, path: str) -> str:
    """pytest's class names are dotted modules with the classes behind; xunit1 has the file too."""
    path = path or _module(group)
    if not group:
        return name or path
    classes = group.removeprefix(path.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join([path, *(classes.split(".") if classes else ()), name])


def _module(group: str) -> str:
    """Classes begin with a capital; what stands before them is the module."""
    parts = group.split(".")
    own = next((at for at, part in enumerate(parts) if part[:1].isupper()), len(parts))
    return "/".join(parts[:own]) + ".py" if own else group
