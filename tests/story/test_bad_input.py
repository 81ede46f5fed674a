"""Bad input ends in its outcome, with a sentence and a next step, within the budget; nothing is left running or lying about.

All cases are begun together, because each of them mostly waits; every test then looks at the end of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from agent.contract.outcome import Outcome
from app.publish.outcomes import label
from app.store.values import Attempt
from tests.databases import on_sqlite
from tests.standins.model import Asked, Reply, ScriptedModel, empty, hanging, huge, unauthorized
from tests.story.story import FAST, PYTEST, Story, tidy, told, until
from tests.story.test_healing import BROKEN, CALCULATOR

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE = 280.0  # seconds until all of them have ended on a busy machine
MODEL_ALONE = "rungs: [model]\nbudget: {iterations: 2}\n"
WAITING_CI = "sleep 2; exit 1"

Begin = Callable[[Story, str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Case:
    """A bad input: what happens, and how it must end."""

    begin: Begin
    outcome: Outcome
    says: str = ""  # part of the reason
    is_told: bool = True  # on the commit


def asked_for(files: Mapping[str, str | bytes], configuration: str | None = None) -> Begin:
    """A maintainer comments `/heal` on a pull request with these files: no CI of the stand-in runs them."""

    async def begin(story: Story, name: str) -> None:
        own = {".github/selfheal.yml": configuration} if configuration is not None else {}
        await story.repository(name, {"README.md": "A case\n", **own}, on="workflow_dispatch")
        await story.github.push(name, "topic", tidy(files), "Change it")
        await heal(story, name)

    return begin


async def heal(story: Story, name: str, head: str = "topic") -> None:
    story.github.add_collaborator(name, "maria", "write")
    pull = await story.github.open_pull(name, head)
    await story.github.comment(name, pull.number, "maria", "/heal")


def failed_in_ci(configuration: str | None = None, command: str = "exit 1") -> Begin:
    """A push whose CI fails."""

    async def begin(story: Story, name: str) -> None:
        own = {".github/selfheal.yml": configuration} if configuration is not None else {}
        await story.repository(name, {**CALCULATOR, **own}, command=command)
        await story.github.push(name, "main", tidy(BROKEN), "Break it")

    return begin


async def removed_meanwhile(story: Story, name: str) -> None:
    def remove(_method: str, _path: str) -> None:
        if story.github.world.repository(name) is not None:
            story.github.remove_repository(name)

    story.github.faults.on("GET", f"/repos/{name}/tarball/*", remove, when="before")
    await failed_in_ci()(story, name)


async def links_outside(story: Story, name: str) -> None:
    checkout = story.service.folder / name.replace("/", "-")
    checkout.mkdir()
    for path, text in tidy(CALCULATOR).items():
        assert isinstance(text, str)
        (checkout / path).write_text(text)
    for argv in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"], ["checkout", "-qb", "topic"]):
        git(checkout, *argv)
    (checkout / "secrets").symlink_to("../../../../etc/shadow")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "second")
    git(checkout, "checkout", "-q", "main")
    await story.github.import_repository(name, checkout)
    await heal(story, name)


def git(folder: Path, *argv: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *argv], cwd=folder, check=True, capture_output=True)


async def moved_on(story: Story, name: str) -> None:
    await failed_in_ci(command=WAITING_CI)(story, name)
    await story.github.push(
        name, "main", {"README.md": "[skip] nothing of interest\n", ".github/workflows/ci.yml": None}, "Go on"
    )


async def forced_away(story: Story, name: str) -> None:
    """The commit whose CI runs is replaced; nothing on any branch leads to it any more."""
    await failed_in_ci(command=WAITING_CI)(story, name)
    git_of = story.github.repository(name).git
    (lost, first) = [commit.sha for commit in await story.github.commits(name, "main")]
    await git_of.set_ref("refs/heads/main", first, lost)


async def dying_sandbox(story: Story, name: str) -> None:
    """Somebody (the kernel, short of memory) kills the sandbox in the middle of a test, time and again."""
    sleep = ("sleep", "98989")
    await asked_for({"test_a.py": f"import subprocess\n\n\ndef test_a():\n    subprocess.run({sleep!r})\n"})(story, name)
    for _ in range(3):
        await until(lambda: sandboxes_running(*sleep) != [], f"the tests of {name} never began")
        (sandbox,) = sandboxes_running(*sleep)
        os.kill(sandbox, signal.SIGKILL)
        await until(lambda: not sandboxes_running(*sleep), "killed, and its processes live on", seconds=10)


async def from_a_fork(story: Story, name: str) -> None:
    """A stranger's pull request fails in CI; then a maintainer asks for it all the same."""
    await story.repository(name, CALCULATOR, command="exit 1", on="[pull_request]")
    await story.github.fork(name, "stranger")
    fork = f"stranger/{name.partition('/')[2]}"
    await story.github.push(fork, "topic", tidy(BROKEN), "Break it", "stranger")
    await heal(story, name, "stranger:topic")


def sandboxes_running(*argv: str) -> list[int]:
    """Process ids of the outermost bubblewrap around a command."""
    found = set()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.read_bytes().decode(errors="replace").rstrip("\0").split("\0") == list(argv):
                found.add(_outermost(int(line.parent.name)))
        except OSError:
            continue  # it has just ended
    return sorted(found - {0})


def _outermost(pid: int) -> int:
    outermost = 0
    while pid > 1:
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        if status["Name"] == "bwrap":
            outermost = pid
        pid = int(status["PPid"])
    return outermost


HANGS = "import time\n\n\ndef test_waits():\n    time.sleep(10_000)\n"
FLOOD = """\
    import os

    from calculator import in_stock


    def test_flood():
        for _ in range(256):
            os.write(1, bytes(1 << 20))
        for _ in range(16):
            print("x" * (1 << 20))
        assert in_stock(3, 3) and False
    """
HANGS_AT_IMPORT = "while True:\n    pass\n\n\ndef test_nothing():\n    pass\n"
LATIN = "# -*- coding: latin-1 -*-\nNAME = 'Z\xfcrich'\n\n\ndef is_short(name):\n    return len(name) < 6\n".encode("latin-1")
USES_LATIN = "from places import NAME, is_short\n\n\ndef test_zurich_is_short():\n    assert is_short(NAME)\n"


def answered(word: str) -> Begin:
    """A failing test, with a word in it by which the scripted model knows what to answer."""
    test = f"from words import plural\n\n\ndef test_{word}():\n    assert plural('mouse') == 'mice'\n"
    return asked_for({"words.py": "def plural(word):\n    return word + 's'\n", "test_words.py": test}, MODEL_ALONE)


ANSWERS: dict[str, str | Reply] = {
    "nonsense": "Colourless green ideas sleep furiously. <<<<<<< SEARCH",
    "ten_megabytes": huge(),
    "silence": empty(),
    "waiting": hanging(),
    "stranger": unauthorized(),
}

CASES: dict[str, Case] = {
    "no-tests": Case(asked_for({"a.py": "x = 1\n"}), Outcome.NOTHING_FAILED, "The repository has no tests"),
    "green": Case(asked_for(CALCULATOR), Outcome.NOT_REPRODUCED, "Nothing failed here"),
    "hanging": Case(asked_for({"test_a.py": HANGS}, f"{MODEL_ALONE}test: [{{run: {PYTEST}, timeout: 4}}]\n"), Outcome.GAVE_UP),
    "hanging-import": Case(
        asked_for({"test_a.py": HANGS_AT_IMPORT}, f"{MODEL_ALONE}test: [{{run: {PYTEST}, timeout: 4}}]\n"),
        Outcome.OUT_OF_BUDGET,
    ),
    "flood": Case(
        asked_for({**CALCULATOR, **BROKEN, "test_flood.py": FLOOD}, f"rungs: []\ntest: [{{run: {PYTEST} -s}}]\n"),
        Outcome.GAVE_UP,
        "No source of patches",
    ),
    "latin": Case(asked_for({"places.py": LATIN, "test_places.py": USES_LATIN}), Outcome.GAVE_UP),
    "binary": Case(
        asked_for(
            {**CALCULATOR, **BROKEN, "places.py": LATIN, "logo.py": bytes(range(256)), "a\u00e9 b.dat": b"\xff" * 100_000}
        ),
        Outcome.HEALED,
        "Opened pull request",
    ),
    "broken-configuration": Case(
        asked_for(CALCULATOR, "enabled: true\ntests: pytest\n"), Outcome.REFUSED, "line 2, `tests`: unknown key"
    ),
    "turned-off": Case(failed_in_ci("enabled: false\n"), Outcome.REFUSED, "disables Selfheal", is_told=False),
    "gone": Case(removed_meanwhile, Outcome.CANCELLED, "acme/gone", is_told=False),
    "links": Case(links_outside, Outcome.REFUSED, "etc/shadow"),
    "packed": Case(asked_for({"zeros.bin": bytes(100 << 20)}), Outcome.REFUSED, "unpacks to more than 200 times its size"),
    "moved-on": Case(moved_on, Outcome.SUPERSEDED, "The newest commit of", is_told=False),
    "forced-away": Case(forced_away, Outcome.SUPERSEDED, "The newest commit of", is_told=False),
    "dying-sandbox": Case(dying_sandbox, Outcome.INFRASTRUCTURE, "The sandbox failed 3 times"),
    "fork": Case(from_a_fork, Outcome.REFUSED, "comes from a fork", is_told=False),
    "model-nonsense": Case(answered("nonsense"), Outcome.GAVE_UP, "no usable answer"),
    "model-ten-megabytes": Case(answered("ten_megabytes"), Outcome.OUT_OF_BUDGET, "model tokens"),
    "model-silence": Case(answered("silence"), Outcome.GAVE_UP, "empty"),
    "model-waiting": Case(answered("waiting"), Outcome.GAVE_UP, "no answer within 2 s"),
    "model-stranger": Case(answered("stranger"), Outcome.GAVE_UP, "Incorrect API key"),
}


# One of each kind, on SQLite. The others run on PostgreSQL: it is the stricter one (no NUL bytes in texts).
QUICK = ("no-tests", "broken-configuration", "gone", "links", "moved-on", "fork")


@dataclass(frozen=True, slots=True)
class Begun:
    """The service under way with the cases of the selected tests; others begin when they are asked for."""

    story: Story
    beginnings: dict[str, asyncio.Task[object]]

    def begin(self, name: str) -> asyncio.Task[object]:
        if name not in self.beginnings:
            self.beginnings[name] = asyncio.ensure_future(CASES[name].begin(self.story, f"acme/{name}"))
        return self.beginnings[name]

    async def ended(self, name: str) -> Attempt:
        await self.begin(name)
        return await self.story.ended(f"acme/{name}", seconds=PATIENCE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def begun(
    tmp_path_factory: pytest.TempPathFactory, module_database_url: str | None, request: pytest.FixtureRequest
) -> AsyncIterator[Begun]:
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    selected = {call["name"] for call in calls if call.get("name") in CASES}
    names = [name for name in CASES if (name in QUICK) == (module_database_url is None) and name in selected]

    def answer(asked: Asked) -> str | Reply:
        return next((reply for word, reply in ANSWERS.items() if f"test_{word}" in asked.prompt), "I do not know.")

    async with ScriptedModel(answer) as model:
        variables = {
            **FAST,
            "SELFHEAL_WORKER_JOBS": "3",
            "SELFHEAL_MODEL": "openai/scripted",
            "SELFHEAL_MODEL_API_BASE": model.openai_url,
            "SELFHEAL_MODEL_API_KEY": "sk-not-a-real-key-0123456789",
            "SELFHEAL_MODEL_TIMEOUT": "2",
        }
        async with told(tmp_path_factory.mktemp("bad"), variables, database_url=module_database_url) as story:
            begun = Begun(story, {})
            for name in names:
                begun.begin(name)
            yield begun
            for task in begun.beginnings.values():
                task.cancel()
            await asyncio.gather(*begun.beginnings.values(), return_exceptions=True)


on_postgresql = pytest.mark.parametrize("module_database_url", ["postgresql"], indirect=True, scope="module")


@on_sqlite
@pytest.mark.parametrize("name", QUICK)
async def test_each_ends_in_its_outcome_with_a_sentence_and_a_next_step(begun: Begun, name: str) -> None:
    await ends_as_it_must(begun, name)


@on_postgresql
@pytest.mark.parametrize("name", [name for name in CASES if name not in QUICK])
async def test_the_others_do_too(begun: Begun, name: str) -> None:
    await ends_as_it_must(begun, name)


async def ends_as_it_must(begun: Begun, name: str) -> None:
    case = CASES[name]
    attempt = await begun.ended(name)
    assert attempt.outcome is case.outcome, attempt.reason
    assert case.says in (attempt.reason or "")
    assert attempt.next_step
    if case.is_told:
        (run,) = [run for run in begun.story.github.check_runs(f"acme/{name}") if run.head_sha == attempt.head_sha]
        assert (run.status, run.conclusion) == ("completed", "neutral")
        is_healed = case.outcome is Outcome.HEALED
        begins = "Repair in #" if is_healed else f"{label(case.outcome)}. "
        assert run.output["title"].startswith(begins)
        assert "**Next:**" in run.output["summary"]
    pulls = begun.story.github.pull_requests(f"acme/{name}") if name != "gone" else []
    assert any(pull.head_branch.startswith("selfheal/") for pull in pulls) == (case.outcome is Outcome.HEALED)


@on_sqlite
async def test_a_failing_run_of_a_fork_starts_nothing(begun: Begun) -> None:
    attempt = await begun.ended("fork")
    assert attempt.by_command, "the only one is what the maintainer asked for"
    mine = [
        delivery
        for delivery in begun.story.github.deliveries
        if delivery.event == "workflow_run" and delivery.payload["repository"]["full_name"] == "acme/fork"
    ]
    await until(lambda: any(d.action == "completed" and d.status_code for d in mine), "its run was never told")
    (completed,) = [delivery for delivery in mine if delivery.action == "completed"]
    assert (completed.status_code, "fork" in completed.answer) == (202, True)


@on_postgresql
async def test_a_hanging_test_is_named(begun: Begun) -> None:
    await begun.ended("hanging")
    (run,) = begun.story.github.check_runs("acme/hanging")
    assert "test_waits" in run.output["summary"]


@on_postgresql
async def test_an_unusable_key_is_not_told_to_the_world(begun: Begun) -> None:
    await begun.ended("model-stranger")
    (run,) = begun.story.github.check_runs("acme/model-stranger")
    assert "sk-not-a-real-key" not in str(run.output)


@pytest.mark.long
async def test_nothing_is_left_of_them(begun: Begun) -> None:
    for name in begun.beginnings:
        await begun.ended(name)
    await begun.story.leaves_nothing()
    worker = begun.story.service.workers[0]
    status = dict(line.split(":", 1) for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines())
    most = int(status["VmHWM"].split()[0]) // 1024
    assert most < 800, f"the worker needed {most} MiB: what the tests printed, or the model said, was kept"
    expected = 2 if "dying-sandbox" in begun.beginnings else 0  # it is tried again twice
    assert begun.story.service.log("worker").count("try failed") == expected, begun.story.service.log("worker")[-3000:]
