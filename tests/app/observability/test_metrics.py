"""What `/metrics` says, read by Prometheus' own parser, of a database in which things happened."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from agent.contract.events import Degraded, ModelCalled, SandboxOpened, StepDone
from agent.contract.outcome import Outcome
from app.observability import metrics
from app.observability.metrics import Metrics
from app.settings import Settings, load
from app.store.figures import Figures
from app.store.store import Store, Terms
from tests.app.requests import COMMAND, MovableClock, run_of, taken
from tests.app.service.test_web import send, serving
from tests.story.service import free_port
from webhooks.intake import Ignored
from webhooks.receive import Receiver

CALL = ModelCalled(text="", model="openai/small", role="repair", tokens_in=100, tokens_out=7, seconds=2.0, cost=0.25)


@pytest.fixture
def time_of_moved() -> MovableClock:
    return MovableClock()


@pytest.fixture
def moved(store: Store, time_of_moved: MovableClock) -> Store:
    """The store, on a clock of the test's own."""
    return Store(store.database, time_of_moved, Terms(silence=30.0, longest=600.0, tries=3))


async def up() -> bool:
    return True


async def parsed(store: Store) -> dict[str, Metric]:
    answer = (await Metrics(store.figures, up, lambda: 3).text()).decode()
    return {family.name: family for family in text_string_to_metric_families(answer)}


def value(families: dict[str, Metric], sample: str, **labels: str) -> float:
    found = [
        each.value for family in families.values() for each in family.samples if (each.name, each.labels) == (sample, labels)
    ]
    assert len(found) == 1, f"{sample} {labels}: {found}"
    return found[0]


async def test_deliveries_attempts_and_durations_are_counted(moved: Store, time_of_moved: MovableClock) -> None:
    first = await taken(moved, run_of("a" * 40))
    await taken(moved, COMMAND)
    await taken(moved, Ignored("not ours"))
    time_of_moved.advance(4)
    async with moved.lease(first, "w") as lease:
        time_of_moved.advance(100)
        await lease.end(Outcome.HEALED, "done")
    time_of_moved.advance(6)
    told = await parsed(moved)
    assert value(told, "selfheal_deliveries_total", decision="request") == 2
    assert value(told, "selfheal_deliveries_total", decision="ignored") == 1
    assert value(told, "selfheal_attempts_triggered_total", trigger="command") == 1
    assert value(told, "selfheal_attempts_ended_total", outcome="healed") == 1
    assert value(told, "selfheal_attempts_ended_total", outcome="gave_up") == 0
    assert value(told, "selfheal_attempt_claims_total") == 1
    assert value(told, "selfheal_attempt_duration_seconds_sum", outcome="healed") == pytest.approx(100, abs=0.01)
    assert value(told, "selfheal_attempt_duration_seconds_bucket", outcome="healed", le="60.0") == 0
    assert value(told, "selfheal_attempt_duration_seconds_bucket", outcome="healed", le="120.0") == 1
    assert value(told, "selfheal_attempt_duration_seconds_bucket", outcome="healed", le="+Inf") == 1
    assert value(told, "selfheal_attempt_pickup_seconds_sum") == pytest.approx(4, abs=0.01)
    assert value(told, "selfheal_attempts", status="queued") == 1
    assert value(told, "selfheal_queue_due") == 1
    assert value(told, "selfheal_queue_oldest_due_seconds") == pytest.approx(110)
    assert value(told, "selfheal_ends_untold") == 1


async def test_a_lease_whose_worker_fell_silent_is_told_as_expired(moved: Store, time_of_moved: MovableClock) -> None:
    attempt_id = await taken(moved, run_of("a" * 40))
    async with moved.lease(attempt_id, "w") as lease:
        held = await parsed(moved)
        assert (value(held, "selfheal_leases", state="held"), value(held, "selfheal_leases", state="expired")) == (1, 0)
        time_of_moved.advance(31)
        silent = await parsed(moved)
        assert (value(silent, "selfheal_leases", state="held"), value(silent, "selfheal_leases", state="expired")) == (0, 1)
        await lease.end(Outcome.HEALED, "done")


async def test_what_a_timeline_keeps_is_counted_with_it_and_what_a_lost_lease_says_is_not(moved: Store) -> None:
    attempt_id = await taken(moved, run_of("a" * 40))
    async with moved.lease(attempt_id, "w") as lease:
        for event in (
            CALL,
            CALL,
            ModelCalled(text="", model="openai/small", role="r", tokens_in=5, tokens_out=0, seconds=1, cost=None, error="busy"),
            SandboxOpened(text="", sandbox="local", seconds=0.5),
            SandboxOpened(text="", sandbox="local", seconds=0.1, error="SandboxUnavailable"),
            StepDone(text="", step="install", seconds=3.0),
            Degraded(text="", step="resume", why="gone"),
        ):
            await lease.record(event)
        await lease.end(Outcome.HEALED, "done")
        with pytest.raises(Exception, match="no longer ours"):
            await lease.record(CALL)
    told = await parsed(moved)
    assert value(told, "selfheal_model_calls_total", model="openai/small", result="answered") == 2
    assert value(told, "selfheal_model_calls_total", model="openai/small", result="failed") == 1
    assert value(told, "selfheal_model_tokens_total", model="openai/small", direction="input") == 205
    assert value(told, "selfheal_model_tokens_total", model="openai/small", direction="output") == 14
    assert value(told, "selfheal_model_cost_dollars_total", model="openai/small") == 0.5
    assert value(told, "selfheal_sandbox_starts_total", sandbox="local", result="opened") == 1
    assert value(told, "selfheal_sandbox_starts_total", sandbox="local", result="failed") == 1
    assert value(told, "selfheal_step_duration_seconds_sum", step="install") == 3.0
    assert value(told, "selfheal_step_duration_seconds_count", step="install") == 1
    assert value(told, "selfheal_fallbacks_total", step="resume") == 1


async def test_many_workers_add_to_one_figure_and_nothing_is_lost(moved: Store) -> None:
    async def one(attempt_id: str) -> None:
        async with moved.lease(attempt_id, f"worker of {attempt_id}") as lease:
            for _ in range(5):
                await lease.record(CALL)
            await lease.end(Outcome.HEALED, "done")

    ids = [await taken(moved, run_of(letter * 40)) for letter in "abcd"]
    await asyncio.gather(*map(one, ids))
    assert value(await parsed(moved), "selfheal_model_calls_total", model="openai/small", result="answered") == 20


async def test_without_a_database_the_process_still_tells_of_itself() -> None:
    async def away() -> Figures:
        raise OperationalError("SELECT", {}, Exception("gone"))

    answer = (await Metrics(away, up, lambda: 3).text()).decode()
    told = {family.name: family for family in text_string_to_metric_families(answer)}
    assert value(told, "selfheal_database_up") == 0
    assert "selfheal_deliveries" not in told
    assert "process_resident_memory_bytes" in told


async def test_scrapes_at_once_read_the_database_once(store: Store) -> None:
    reads = 0

    async def read() -> Figures:
        nonlocal reads
        reads += 1
        return await store.figures()

    told = Metrics(read, up, lambda: 3)
    await asyncio.gather(*(told.text() for _ in range(20)))
    assert reads == 1


async def test_names_and_units_are_those_that_prometheus_asks_for(settings: Settings, redis_url: str) -> None:
    """What `promtool check metrics` complains of, and what it cannot know: every label's value is from a closed list."""
    port = free_port()
    settings = settings.model_copy(update={"redis_url": load(redis_url=redis_url).redis_url, "pages_port": port})
    async with serving(settings) as url, httpx.AsyncClient() as client:
        await send(client, url)
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    seen = set()
    for family in text_string_to_metric_families(answer.text):
        if not family.name.startswith("selfheal_"):
            continue  # the library's own
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_created", "_ms", "_minutes")), family.name
        assert "seconds" not in family.name or family.name.endswith("_seconds"), "the unit comes last"
        for sample in family.samples:
            assert family.type != "counter" or sample.name.endswith("_total"), sample.name
            assert sample.name not in seen or sample.labels
            seen.add(sample.name)
            assert "octo/calculator" not in str(sample.labels)
    assert list(_unordered(answer.text)) == []
    assert 'selfheal_webhook_duration_seconds_count{status="202"} 1.0' in answer.text


def _unordered(text: str) -> Iterator[str]:
    """Histograms whose buckets are not cumulative."""
    for family in text_string_to_metric_families(text):
        buckets: dict[str, list[float]] = {}
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                rest = str(sorted((key, label) for key, label in sample.labels.items() if key != "le"))
                buckets.setdefault(rest, []).append(sample.value)
        yield from (family.name for counts in buckets.values() if counts != sorted(counts))


async def test_the_page_for_operators_names_every_figure_and_its_alerts_name_no_other(store: Store) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    told = [family for family in (await parsed(store)).values() if family.name.startswith("selfheal_")]
    names = {family.name + ("_total" if family.type == "counter" else "") for family in told}
    assert set(re.findall(r"^\| `(selfheal_\w+)`", page, re.MULTILINE)) == names
    (rules,) = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])["groups"]
    used = set(re.findall(r"selfheal_\w+", " ".join(rule["expr"] for rule in rules["rules"])))
    assert used
    assert {name.removesuffix("_count") for name in used} <= names


def test_a_new_model_pushes_no_known_one_out() -> None:
    """A counter that comes and goes is a rate that jumps."""
    meters = {("model_calls", f"m{number}", "answered"): 1.0 for number in range(60)}
    (calls, *_) = metrics._metered(meters | {("model_calls", "a new one", "answered"): 1.0})
    assert {sample.labels["model"] for sample in calls.samples} == {label for _, label, _ in meters} | {"a new one"}


async def test_a_database_that_takes_too_long_is_not_told_as_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    is_slow = False

    async def read() -> Figures:
        if is_slow:
            await asyncio.sleep(60)
        return await store.figures()

    monkeypatch.setattr(metrics, "CACHE_SECONDS", 0.0)
    told = Metrics(read, up, lambda: 3)
    await told.text()
    is_slow = True
    monkeypatch.setattr(metrics, "_READ_SECONDS", 0.05)
    families = {family.name: family for family in text_string_to_metric_families((await told.text()).decode())}
    assert value(families, "selfheal_database_up") == 1
    assert value(families, "selfheal_figures_age_seconds") >= 0.05
    assert "selfheal_attempts" in families, "the last figures are told again"


async def test_a_database_that_says_nothing_at_all_is_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read() -> Figures:
        await asyncio.sleep(60)
        return await store.figures()

    async def silent() -> bool:
        return False

    monkeypatch.setattr(metrics, "_READ_SECONDS", 0.05)
    families = {
        family.name: family
        for family in text_string_to_metric_families((await Metrics(read, silent, lambda: 3).text()).decode())
    }
    assert value(families, "selfheal_database_up") == 0


async def test_a_slow_read_is_not_at_once_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    async def read() -> Figures:
        nonlocal reads
        reads += 1
        await asyncio.sleep(60)
        raise AssertionError

    monkeypatch.setattr(metrics, "_READ_SECONDS", 0.2)
    monkeypatch.setattr(metrics, "CACHE_SECONDS", 0.1)
    told = Metrics(read, up, lambda: 3)
    await asyncio.gather(told.text(), told.text())
    assert reads == 1


@pytest.mark.parametrize(
    ("counted", "index"),
    [("deliveries GROUP BY decision", "decision"), ("attempts GROUP BY trigger", "trigger"),
     ("attempts WHERE status = 'ended' GROUP BY outcome", "status_outcome")],
)  # fmt: skip
async def test_what_only_grows_is_counted_from_an_index(settings: Settings, store: Store, counted: str, index: str) -> None:
    async with store.database.read() as session:
        if settings.database_url is not None:  # PostgreSQL reads a table of few rows whole, where it may
            await session.execute(text("SET LOCAL enable_seqscan = off"))
            await session.execute(text("SET LOCAL enable_bitmapscan = off"))
        explain = "EXPLAIN QUERY PLAN" if settings.database_url is None else "EXPLAIN"
        plan = str((await session.execute(text(f"{explain} SELECT count(*) FROM {counted}"))).all())
    assert f"ix_{counted.split()[0]}_{index}" in plan
    assert "COVERING INDEX" in plan or "Index Only Scan" in plan


async def test_a_webhook_that_breaks_is_counted(settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Receiver, "receive", breaks)
    port = free_port()
    settings = settings.model_copy(update={"redis_url": load(redis_url=redis_url).redis_url, "pages_port": port})
    async with serving(settings) as url, httpx.AsyncClient() as client:
        assert (await client.post(f"{url}/webhooks/github", content=b"{}")).status_code == 500
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert 'selfheal_webhook_duration_seconds_count{status="500"} 1.0' in answer.text
