"""Reads JUnit XML that a job printed; ids have the form that the tool itself uses."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException, ElementTree

from agent.ci.logs.model import Cause, ToolReport

LIMIT = 2 * 1024 * 1024  # characters of one report
REPORTS = 200  # maximum that is parsed from one log
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
        if stop is None:  # the suite is never closed, so no later one with this root is either
            break
        text = "\n".join(lines[at : stop + 1])[begin.start() : LIMIT]
        red = parsed < REPORTS and ("<failure" in text or "<error" in text)
        parsed += red
        if ids := read_report(text[: text.rfind(closing) + len(closing)]) if red else ():
            found.append(ToolReport(Cause.TEST, ids, range(at, stop + 1)))
        at = stop + 1
    return tuple(found)


def read_report(xml: str) -> tuple[str, ...]:
    """The ids of the failures in one JUnit XML report; none if it is malformed or defines entities."""
    try:
        root = ElementTree.fromstring(xml[:LIMIT], forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        return ()
    return tuple(_ids(root))


def _ids(root: Element) -> Iterator[str]:
    stack: list[tuple[Element, tuple[str, ...]]] = [(root, ())]
    while stack:
        node, suites = stack.pop()
        if node.tag == "testcase":
            if any(child.tag in ("failure", "error") for child in node):
                yield _id(node, suites)
            continue
        if node.tag == "testsuite":
            suites = (*suites, node.get("name", ""))
        stack += [(child, suites) for child in reversed(node)]


def _id(case: Element, suites: tuple[str, ...]) -> str:
    name, group = case.get("name", ""), case.get("classname", "")
    if "pytest" in suites:
        return _node_id(group, name, case.get("file", ""))
    if group in ("", "test"):  # node's suites are nested and carry no class
        return " > ".join((*suites, name))
    return f"{group}.{name}"


def _node_id(group: str, name: str, path: str) -> str:
    """pytest's class names are a dotted module followed by the classes; xunit1 also has the file."""
    path = path or _module(group)
    if not group:
        return name or path
    classes = group.removeprefix(path.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join([path, *(classes.split(".") if classes else ()), name])


def _module(group: str) -> str:
    """Class names begin with a capital letter; the part before them is the module."""
    parts = group.split(".")
    own = next((at for at, part in enumerate(parts) if part[:1].isupper()), len(parts))
    return "/".join(parts[:own]) + ".py" if own else group
