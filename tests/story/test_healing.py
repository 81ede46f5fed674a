"""A red run becomes a pull request that fixes it, through every real part."""

from __future__ import annotations

from copy import copy
from datetime import timedelta

import httpx
import pytest

from agent.contract.events import StepStarted
from agent.contract.outcome import Outcome
from app.clock import SystemClock
from app.github.client import GitHub
from app.service.missed import redeliver_missed
from tests.app.requests import MovableClock
from tests.app.waiting import until
from tests.story.story import Story, tidy

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALCULATOR = {
    "calculator.py": """\
        def in_stock(count, wanted):
            # A full shelf may be emptied.
            return wanted <= count
        """,
    "test_calculator.py": """\
        from calculator import in_stock


        def test_less_than_there_is():
            assert in_stock(3, 2)


        def test_all_there_is():
            assert in_stock(3, 3)


        def test_more_than_there_is():
            assert not in_stock(3, 4)
        """,
}
BROKEN = {"calculator.py": CALCULATOR["calculator.py"].replace("<=", "<")}


async def test_a_failing_run_becomes_one_verified_pull_request(story: Story) -> None:
    await story.repository("acme/shelf", CALCULATOR)
    sha = await story.push("acme/shelf", BROKEN)

    pull = await story.healed("acme/shelf")

    assert pull.draft
    assert pull.base_branch == "main"
    assert pull.head_branch.startswith("selfheal/")
    (commit, base) = (await story.github.commits("acme/shelf", pull.head_branch))[:2]
    assert base.sha == sha, "the repair is one commit on top of the failing one"
    healed = await story.github.file("acme/shelf", "calculator.py", commit.sha)
    assert healed.decode() == "def in_stock(count, wanted):\n    # A full shelf may be emptied.\n    return wanted <= count\n"
    for said in ("test_calculator.py::test_all_there_is", "1 of 1", "Reflection log", "no network"):
        assert said in pull.body
    (run,) = [run for run in story.github.check_runs("acme/shelf") if run.head_sha == sha]
    assert (run.head_sha, run.status, run.conclusion) == (sha, "completed", "neutral")

    await story.github.settled()
    assert len(await story.store.attempts(repository="acme/shelf")) == 1, "what Selfheal pushes starts no attempt"
    completed = [d for d in story.github.deliveries if d.event == "workflow_run" and d.action == "completed"]
    mine = next(d for d in completed if d.payload["repository"]["full_name"] == "acme/shelf")
    second = story.github.redeliver(mine)
    await story.github.settled()
    assert second.status_code == 202
    assert "duplicate" in second.answer
    assert len(await story.store.attempts(repository="acme/shelf")) == 1, "a redelivered webhook is handled once"


@pytest.mark.long
async def test_a_maintainers_command_starts_an_attempt(story: Story) -> None:
    await story.repository("acme/asked", {"notes.txt": "A shelf."}, on="workflow_dispatch")
    story.github.add_collaborator("acme/asked", "maria", "write")
    # Code that never passed: taking back what a branch changed would be no repair.
    await story.github.push("acme/asked", "topic", tidy(CALCULATOR | BROKEN), "Add the shelf")
    pull = await story.github.open_pull("acme/asked", "topic")
    await story.github.comment("acme/asked", pull.number, "maria", "/heal")

    attempt = await story.ended("acme/asked")

    assert attempt.outcome is Outcome.HEALED, attempt.reason
    assert attempt.by_command
    assert {p.base_branch for p in story.github.pull_requests("acme/asked")} == {"main", "topic"}
    assert [r.content for r in story.github.reactions("acme/asked")] == ["eyes"]


async def test_a_readers_command_is_refused_without_noise(story: Story) -> None:
    await story.repository("acme/refused", CALCULATOR, on="workflow_dispatch")
    story.github.add_collaborator("acme/refused", "rudi", "read")
    await story.github.push("acme/refused", "topic", {"notes.txt": "x"}, "Add notes")
    pull = await story.github.open_pull("acme/refused", "topic")
    await story.github.comment("acme/refused", pull.number, "rudi", "/heal")

    await until(lambda: bool(story.github.reactions("acme/refused")))

    assert [reaction.content for reaction in story.github.reactions("acme/refused")] == ["confused"]
    assert await story.store.attempts(repository="acme/refused") == []
    assert len(story.github.comments("acme/refused", pull.number)) == 1, "only the person's own comment"


SLOW = """\
name: Slow
on: push
jobs:
  slow:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: sleep 6
      - run: test ! -e broken.txt
"""


@pytest.mark.long
async def test_a_workflow_that_is_still_running_is_waited_for(story: Story) -> None:
    files = {**CALCULATOR, ".github/workflows/slow.yml": SLOW, ".github/selfheal.yml": "rungs: []\n"}
    await story.repository("acme/two", files)
    await story.push("acme/two", {"broken.txt": "yes\n", **BROKEN})

    attempt = await story.ended("acme/two")

    steps = [stored.event.text for stored in await story.store.timeline(attempt.id) if isinstance(stored.event, StepStarted)]
    assert "Waiting for 1 other check of this commit" in steps
    titles = {request.title for request in attempt.requests}
    assert titles == {"CI", "Slow"}, attempt.reason


@pytest.mark.long
async def test_each_rerun_by_a_person_is_a_further_attempt(story: Story) -> None:
    await story.repository("acme/again", {**CALCULATOR, ".github/selfheal.yml": "rungs: []\n"})
    sha = await story.push("acme/again", BROKEN)
    await story.ended("acme/again")

    await story.github.rerequest("acme/again", sha)
    assert (await story.ended("acme/again", 2)).requests[0].source == "check_run"

    await story.github.rerequest("acme/again", sha, suite=True)
    assert (await story.ended("acme/again", 3)).requests[0].source == "check_suite"

    (run,) = story.github.runs("acme/again")[-1:]
    story.github.runner.rerun_failed(story.github.repository("acme/again"), run)
    assert (await story.ended("acme/again", 4)).requests[0].source == "workflow_run"

    await story.push("acme/again", {"more.txt": "yes\n"}, branch="gh-readonly-queue/main/pr-1-abc")
    await story.github.settled()
    assert len(await story.store.attempts(repository="acme/again")) == 4, "of a merge queue, nothing is repaired"
    assert not story.github.pull_requests("acme/again")


@pytest.mark.long
async def test_a_bug_beyond_the_patterns_ends_as_gave_up_with_its_log(story: Story) -> None:
    await story.repository(
        "acme/hard", {"words.py": "def plural(word):\n    return word + 's'\n", "test_words.py": "def test_ok():\n    pass\n"}
    )
    test = """\
        import pytest

        from words import plural


        @pytest.mark.parametrize(("one", "many"), [("cat", "cats"), ("box", "boxes"), ("city", "cities"), ("mouse", "mice")])
        def test_plural(one, many):
            assert plural(one) == many
        """
    await story.push("acme/hard", {"test_words.py": test})

    attempt = await story.ended("acme/hard")

    assert attempt.outcome is Outcome.GAVE_UP, attempt.reason
    assert attempt.next_step
    (run,) = story.github.check_runs("acme/hard")
    assert run.conclusion == "neutral"
    assert not story.github.pull_requests("acme/hard")


@pytest.mark.long
async def test_webhooks_that_were_missed_while_the_service_was_down_are_asked_for_again(story: Story) -> None:
    await story.repository("acme/missed", CALCULATOR)
    story.github.deliver_to("http://127.0.0.1:9/nobody")
    await story.github.push("acme/missed", "main", tidy(BROKEN))
    await story.github.settled()
    story.github.deliver_to(story.service.url + "/webhooks/github")
    later = copy(story.store)
    later.clock = MovableClock(SystemClock().now() + timedelta(minutes=5))
    async with GitHub(story.github.app_id, story.github.private_key, api_url=story.github.url) as client:
        assert await redeliver_missed(client, story.store) == 0, "they may still be on their way"
        assert await redeliver_missed(client, later) > 0
        await story.healed("acme/missed")
        await story.github.settled()
        assert await redeliver_missed(client, later) == 0
    assert len(await story.store.attempts(repository="acme/missed")) == 1


async def test_the_public_address_has_no_pages(story: Story) -> None:
    async with httpx.AsyncClient() as client:
        for path in ("/", "/attempts/x", "/api/v1/attempts", "/api/v1/openapi.json", "/static/live.js"):
            assert (await client.get(story.service.url + path)).status_code == 404
        assert (await client.post(story.service.pages + "/webhooks/github")).status_code in (404, 405)
    assert '"sign_in": "none"' in story.service.log("serve")


@pytest.mark.long
async def test_a_push_that_breaks_a_green_branch_is_told_which_lines_broke_it(story: Story) -> None:
    await story.repository("acme/regression", {"notes.txt": "A shelf."})
    green = await story.push("acme/regression", CALCULATOR)
    red = await story.push("acme/regression", BROKEN)

    attempt = await story.ended("acme/regression")

    assert attempt.outcome is Outcome.NEEDS_TEST_CHANGE, attempt.reason
    assert f"GET /repos/acme/regression/compare/{green}...{red} > 200" in story.github.requests
    assert not story.github.pull_requests("acme/regression"), "the author's own change is not taken back"
    (run,) = story.github.check_runs("acme/regression")
    summary = run.output["summary"].replace("\u200b", "")
    assert f"The only line changed since the last commit that passed CI (`{green[:10]}`): `calculator.py:3`." in summary
    assert "-    return wanted <= count\n+    return wanted < count" in summary
