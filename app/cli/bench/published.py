"""`selfheal bench report`: a benchmark's results as one folder that can be published: report, pictures, code and logs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agent.bench.comparing import RunComparison, compare
from agent.bench.lab import PRINTED, BadInput
from agent.bench.metrics import Metric, installed, means, measured
from agent.bench.score import Entry, summary
from agent.contract.words import counted
from agent.solving.tasks import figures
from app.cli.bench import pictures
from app.cli.bench.compared import by_chance
from app.cli.bench.report import by_task, interval, not_measured
from app.cli.bench.results_file import Header, header, stored
from app.redaction import redact

ENDINGS = {
    "first_answer": "the first answer was accepted",
    "healed": "accepted after repair",
    "gave_up": "no answer was accepted",
    "out_of_budget": "the budget was used up",
    "infrastructure": "the model or the sandbox failed",
}
FIGURES = (
    ("base", "first answers that the held-out tests accept"),
    ("first_pass", "first answers that were accepted here"),
    ("healed", "right after repair, and wrong before"),
    ("self_reported", "reported as solved, by the tests that were visible"),
    ("validated", "reported as solved, and accepted by the held-out tests"),
    ("reported_but_wrong", "reported as solved, but wrong"),
    ("unresolved", "not solved, and reported so"),
)
INTERVALS = {"base": "base", "self_reported": "plausible", "validated": "heldout_correct"}  # names in `Summary.intervals`


@dataclass(frozen=True, slots=True)
class Results:
    """One configuration's results."""

    name: str
    file: Path
    header: Header
    entries: Sequence[Entry]


def publish(files: Sequence[Path], folder: Path) -> list[str]:
    """Write the folder; returns what could not be made, a sentence each. Raises `BadInput`."""
    results = _read(files)
    metrics = installed()
    quality = {each.name: measured(each.entries, metrics) for each in results}
    missing = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pictures").mkdir(exist_ok=True)
        try:
            titles = pictures.draw({each.name: _measured(each) for each in results}, folder / "pictures")
        except ImportError:
            titles = {}
            missing.append("There are no pictures: install the extra `bench` (.venv/bin/pip install -e '.[bench]').")
        text = _report(results, quality, metrics, titles)
        (folder / "report.md").write_text(text, "utf-8")
        told = {each.name: _summary(each, quality[each.name], metrics) for each in results}
        (folder / "summary.json").write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        for at, each in enumerate(results, 1):
            (folder / f"results-{at}.jsonl").write_bytes(each.file.read_bytes())
            for entry in each.entries:
                _write_task(folder / "tasks" / str(at) / _file_name(entry.id), entry)
    except OSError as error:
        raise BadInput(
            f"{error.filename or folder} cannot be written: {error.strerror}; pass another folder to --out"
        ) from error
    if not any("complexity" in each for values in quality.values() for each in values.values()):
        missing.append(
            "The code's complexity was not measured: install the extra `bench` (.venv/bin/pip install -e '.[bench]')."
        )
    return missing


def _read(files: Sequence[Path]) -> list[Results]:
    """Raises `BadInput`."""
    headers = [header(file) for file in files]
    if len({each.benchmark for each in headers}) > 1:
        raise BadInput("the files have results of different benchmarks; report one benchmark at a time")
    varying = [name for name in headers[0].options if len({each.options.get(name) for each in headers}) > 1]
    found: list[Results] = []
    for at, (file, head) in enumerate(zip(files, headers, strict=True), 1):
        entries = [entry for entry in stored(file) if entry.skipped is None]
        if all(entry.error is not None for entry in entries):
            raise BadInput(f"{file} has no measured task yet")
        name = ", ".join(f"{name} {head.options.get(name, '-')}" for name in varying) if varying else head.benchmark
        names = [each.name for each in found]
        found.append(Results(f"{name} ({at})" if name in names else name, file, head, entries))
    return found


def _summary(each: Results, quality: dict[str, dict[str, float]], metrics: Sequence[Metric]) -> dict[str, Any]:
    own = figures(each.entries) if _is_written(each) else {}
    return {
        "benchmark": each.header.benchmark,
        "options": dict(each.header.options),
        **msgspec.to_builtins(summary(each.entries)),
        **own,
        "quality": means(quality, metrics),
    }


def _measured(each: Results) -> list[Entry]:
    return [entry for entry in each.entries if entry.error is None]


def _is_written(each: Results) -> bool:
    return any("base" in entry.details for entry in each.entries)


def _report(
    results: Sequence[Results],
    quality: Mapping[str, dict[str, dict[str, float]]],
    metrics: Sequence[Metric],
    titles: Mapping[str, str],
) -> str:
    first = results[0]
    lines = [f"# Benchmark `{first.header.benchmark}`", ""]
    for each in results:
        lines += _configuration(each, quality[each.name], metrics, is_alone=len(results) == 1)
    for other in results[1:]:
        lines += _comparison(first, other, compare(first.entries, other.entries))
    if titles:
        lines += ["## Pictures", ""]
        for name, title in titles.items():
            lines += [f"![{title}](pictures/{name}.svg)", ""]
    for at, each in enumerate(results, 1):
        lines += [f"## Tasks{'' if len(results) == 1 else f': {each.name}'}", ""]
        lines += ["| task | first answer | result | right | rounds | tokens | seconds |", "|---|---|---|---|---|---|---|"]
        lines += [_row(at, entry) for entry in each.entries]
        lines += [""]
    return redact("\n".join(lines))


def _configuration(
    each: Results, quality: dict[str, dict[str, float]], metrics: Sequence[Metric], *, is_alone: bool
) -> list[str]:
    total = summary(each.entries)
    lines = [f"## {'Configuration' if is_alone else each.name}", ""]
    lines += [", ".join(f"{name} `{value}`" for name, value in each.header.options.items()) + ".", ""]
    if _is_written(each):
        own = figures(each.entries)
        lines += [f"| of {own['tried']} that were tried | | share | 95 % |", "|---|---|---|---|"]
        ranges = {name: interval(total.intervals[key]) for name, key in INTERVALS.items()}
        lines += [
            f"| {text} | {own[name]} | {own[name] / max(1, own['tried']):.0%} | {ranges.get(name, '')} |"
            for name, text in FIGURES
        ]
        lines += ["", _sentence(own), ""]
        names = ("tasks", "error", "base", "healed", "validated", "unresolved")
        lines += [f"| category | {' | '.join(names)} |", f"|{'---|' * (1 + len(names))}"]
        for group, counts in own["categories"].items():
            lines += [f"| {_cell(group)} | " + " | ".join(str(counts[name]) for name in names) + " |"]
        endings = ", ".join(f"{ENDINGS.get(name, name)}: {count}" for name, count in own["endings"].items())
        lines += ["", f"How the tasks ended: {endings}.", ""]
    else:
        plausible, right = total.intervals["plausible"], total.intervals["heldout_correct"]
        lines += [f"{plausible.count} of {plausible.of} were repaired, {right.count} of them are right by held-out tests.", ""]
    cost = "unknown" if total.cost is None else f"${total.cost:.2f}"
    rounds = sum(entry.iterations for entry in each.entries)
    seconds = sum(entry.seconds or 0.0 for entry in each.entries)
    spent = f"{counted(rounds, 'round')}, {counted(total.tokens, 'token')}, cost {cost}, {seconds:,.0f} s of work."
    lines += [f"Spent: {spent}", ""]
    if values := means(quality, metrics):
        texts = {metric.name: metric.text for metric in metrics}
        lines += ["| quality of the code | mean |", "|---|---|"]
        lines += [f"| {_cell(texts[name])} | {value:.2f} |" for name, value in values.items()] + [""]
    if total.failed:
        lines += [not_measured(total), ""]
    if total.distinct < total.tasks:
        lines += [by_task(total), ""]
    return lines


def _sentence(own: Mapping[str, Any]) -> str:
    base, validated, gain = own["means"]["base"], own["means"]["validated"], own["gain"]
    return (
        f"Base {base['mean']:.1%} (95 % interval {base['low']:.1%} to {base['high']:.1%}, over tasks), healed "
        f"{validated['mean']:.1%} ({validated['low']:.1%} to {validated['high']:.1%}). After healing, "
        f"{counted(gain['gained'], 'task')} did better and {gain['lost']} worse (exact sign test by task: p = {gain['p']:.3g})."
    )


def _comparison(one: Results, two: Results, found: RunComparison) -> list[str]:
    rates = [f"{each.count} of {each.of}" for each in (found.first, found.second)]
    text = (
        f"On {counted(found.tasks, 'common task')}, the first got {rates[0]} right, the second {rates[1]}. The second did "
        f"better on {counted(len(found.gained), 'task')}, the first on {len(found.lost)}. {by_chance(found)}"
    )
    return [f"## {one.name} beside {two.name}", "", text, ""]


def _row(at: int, entry: Entry) -> str:
    base = {True: "right", False: "wrong"}.get(entry.details.get("base"), "")  # type: ignore[arg-type]
    right = {True: "yes", False: "no", None: ""}[entry.heldout_correct]
    ended = str(entry.details.get("ended", entry.outcome)).replace("_", " ")
    name = f"[{_cell(entry.id)}](tasks/{at}/{_file_name(entry.id)}/log.md)"
    seconds = "" if entry.seconds is None else f"{entry.seconds:.1f}"
    return f"| {name} | {base} | {ended} | {right} | {entry.iterations} | {entry.tokens:,} | {seconds} |"


def _write_task(folder: Path, entry: Entry) -> None:
    """A task's code, its first answer, tests, what the reference tests printed, and a log for people."""
    details = entry.details
    for part, texts in (
        ("code", details.get("code")),
        ("first-answer", details.get("first")),
        ("tests", details.get("tests")),
    ):
        for path, text in (texts or {}).items():
            target = folder / part / Path(*[_file_name(name) for name in path.split("/")])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(redact(text), "utf-8", errors="replace")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("", details.get(PRINTED)), ("-first-answer", details.get("first_printed"))):
        if text:
            (folder / f"reference-tests{name}.txt").write_text(redact(text), "utf-8", errors="replace")
    ended = "Not measured" if entry.error else "Solved" if entry.plausible else "Not solved"
    lines = [f"# {entry.id}", "", f"{ended}. {entry.judged_by or ''}".strip(), ""]
    if entry.reason or entry.error:
        lines += [str(entry.error or entry.reason), ""]
    for told in details.get("iterations", ()):
        lines += [f"## Round {told['number']}: {told['title']}", "", f"{told['rung']}: {told['result']}", ""]
        if told.get("diff"):
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", told["diff"])), default=0))
            lines += [f"{fence}diff", told["diff"].rstrip(), fence, ""]
        if told.get("lesson"):
            lines += [f"Lesson: {told['lesson']}", ""]
    for title, name in (("Still failing", "failing"), ("Notes", "notes"), ("Doubts", "doubts"), ("Lessons", "lessons")):
        if details.get(name):
            lines += [f"## {title}", "", *(f"- {line}" for line in details[name]), ""]
    if entry.diff:
        lines += ["## Change", "", "~~~~diff", entry.diff.rstrip(), "~~~~", ""]
    (folder / "log.md").write_text(redact("\n".join(lines)), "utf-8", errors="replace")


def _file_name(text: str) -> str:
    name = re.sub(r"[^\w.@+-]", "_", text)[:120]
    return name if name.strip(".") else f"_{name}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
