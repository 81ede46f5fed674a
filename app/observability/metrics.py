"""`/metrics` in Prometheus' text format: the whole service's figures from the database, and this process's own.

Figures from the database are the same in every process and survive restarts. No label contains external text: outcomes, steps
and kinds of sandbox are closed lists, models are named by the operator.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final

import structlog
from prometheus_client import (
    CollectorRegistry,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from agent.contract.outcome import Outcome
from app.store import figures
from app.store.figures import Figures

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
CACHE_SECONDS: Final = 5.0  # how long figures are reused, so that frequent scrapes do not load the database
_READ_SECONDS: Final = 5.0
log = structlog.get_logger(__name__)


class Metrics(Collector):
    """The metrics of one web process. `read` reads the service's figures, `answers` checks the database.

    `leftovers` counts the folders of ended sandboxes on this machine that could not be removed. Blocks.
    """

    def __init__(
        self, read: Callable[[], Awaitable[Figures]], answers: Callable[[], Awaitable[bool]], leftovers: Callable[[], int]
    ) -> None:
        self._read, self._answers = read, answers
        self._reading = asyncio.Lock()
        self._asked: float | None = None
        self._is_up = False
        self._cached: tuple[float, Figures] | None = None  # the figures, and when they were read
        disable_created_metrics()  # type: ignore[no-untyped-call]  # an unused series per metric
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)
        PlatformCollector(registry=self._own)
        GCCollector(registry=self._own)
        left = "Folders of ended sandboxes on this machine that could not be removed."
        Gauge("selfheal_sandbox_leftovers", left, registry=self._own).set_function(leftovers)
        self._webhooks = Histogram(
            "selfheal_webhook_duration_seconds",
            "Time until this process answered a webhook, by status of the response.",
            ["status"],
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self._own,
        )

    def webhook(self, status: int, seconds: float) -> None:
        """Record an answered webhook."""
        self._webhooks.labels(str(status)).observe(seconds)

    async def text(self) -> bytes:
        """All metrics, in the text format 0.0.4; without the database's figures while it is down.

        If reading the figures takes too long, the last ones are repeated, with their age.
        """
        async with self._reading:
            if self._asked is None or time.monotonic() - self._asked > CACHE_SECONDS:
                await self._ask()
                self._asked = time.monotonic()  # after the read, so that slow reads do not follow each other immediately
        of_service = CollectorRegistry()
        of_service.register(self)
        return await asyncio.to_thread(lambda: generate_latest(of_service) + generate_latest(self._own))

    def collect(self) -> Iterator[Metric]:
        """The service's metric families, from the last figures."""
        up = "Whether the database answers; without it, only this process's own metrics are reported."
        yield GaugeMetricFamily("selfheal_database_up", up, float(self._is_up))
        if self._is_up and self._cached is not None:
            age = "Age of the service's metrics; grows while reading them takes too long."
            yield GaugeMetricFamily("selfheal_figures_age_seconds", age, time.monotonic() - self._cached[0])
            yield from families(self._cached[1])

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                figures = await self._read()
        except TimeoutError:
            self._is_up = await self._answers()
            log.warning("metrics not updated; reading them takes too long", seconds=_READ_SECONDS, database_answers=self._is_up)
        except (SQLAlchemyError, OSError) as error:
            self._is_up = False
            log.warning("metrics not updated; the database does not answer", error=f"{type(error).__name__}: {error}")
        else:
            self._is_up, self._cached = True, (time.monotonic(), figures)


async def scraped(request: Request) -> Response:
    """`GET /metrics`. Expects the process's `Metrics` as `request.state.metrics`."""
    metrics: Metrics = request.state.metrics
    return Response(await metrics.text(), media_type=CONTENT_TYPE)


_METERS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "model_calls": ("selfheal_model_calls", "Model calls.", ("model", "result")),
    "model_tokens": ("selfheal_model_tokens", "Tokens of prompts and completions.", ("model", "direction")),
    "model_cost": ("selfheal_model_cost_dollars", "Cost of models with a known price.", ("model",)),
    "model_seconds": ("selfheal_model_seconds", "Time spent waiting for models.", ("model",)),
    "sandboxes": ("selfheal_sandbox_starts", "Sandbox starts by result.", ("sandbox", "result")),
    "sandbox_seconds": ("selfheal_sandbox_start_seconds", "Time spent starting sandboxes.", ("sandbox", "result")),
    "fallbacks": ("selfheal_fallbacks", "Number of times that a step used a fallback.", ("step",)),
}
"""Name, help and labels of each stored counter (`Figures.meters`)."""


def families(known: Figures) -> Iterator[Metric]:
    """The service's figures as Prometheus metrics."""
    counter, gauge = CounterMetricFamily, GaugeMetricFamily
    yield _labelled(counter, "selfheal_deliveries", "Webhook deliveries by decision.", "decision", known.deliveries,
                    ("request", "change", "ignored", "refused"))  # fmt: skip
    yield _labelled(counter, "selfheal_attempts_triggered", "Attempts by trigger.", "trigger", known.created,
                    ("automatic", "command", "fork"))  # fmt: skip
    yield _labelled(counter, "selfheal_attempts_ended", "Ended attempts by outcome.", "outcome", known.ended, Outcome)
    claims = "Claims of attempts by workers; an attempt's second and later claims are retries."
    yield counter("selfheal_attempt_claims", claims, known.claims)
    lasting = "Time from an attempt's first claim to its end, by outcome."
    lasted = HistogramMetricFamily("selfheal_attempt_duration_seconds", lasting, labels=["outcome"])
    for outcome, histogram in sorted(known.lasted.items()):
        lasted.add_metric([outcome], _buckets(histogram), histogram.sum)
    yield lasted
    picked_up = HistogramMetricFamily("selfheal_attempt_pickup_seconds", "Time from an attempt's trigger to its first claim.")
    picked_up.add_metric([], _buckets(known.picked_up), known.picked_up.sum)
    yield picked_up
    yield _labelled(gauge, "selfheal_attempts", "Attempts by current status.", "status", known.standing,
                    ("queued", "running", "waiting", "ended"))  # fmt: skip
    yield gauge("selfheal_queue_due", "Queued attempts that a worker could claim now.", known.due)
    oldest = "How long the oldest claimable attempt has waited; 0 if there is none."
    yield gauge("selfheal_queue_oldest_due_seconds", oldest, known.oldest_due)
    yield _labelled(gauge, "selfheal_leases", "Running attempts by whether their lease is held or expired.", "state",
                    known.leases, ("held", "expired"))  # fmt: skip
    unreported = "Ended attempts whose outcome has not been reported to GitHub yet."
    yield gauge("selfheal_ends_untold", unreported, known.unreported)
    yield _labelled(gauge, "selfheal_pull_requests", "Opened pull requests by current state.", "state", known.pulls,
                    ("open", "closed", "merged"))  # fmt: skip
    yield from _metered(known.meters)


def _metered(meters: Mapping[tuple[str, str, str], float]) -> Iterator[Metric]:
    """The stored counters."""
    counters = {meter: CounterMetricFamily(name, help_, labels=labels) for meter, (name, help_, labels) in _METERS.items()}
    steps = SummaryMetricFamily("selfheal_step_duration_seconds", "Duration of finished steps.", labels=["step"])
    for (name, label, detail), value in sorted(meters.items()):
        if name in counters:
            counters[name].add_metric([label, detail][: len(_METERS[name][2])], value)
        elif name == "steps":
            steps.add_metric([label], count_value=int(value), sum_value=meters.get(("step_seconds", label, ""), 0.0))
    yield from counters.values()
    yield steps


def _labelled(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    help_: str,
    label: str,
    values: Mapping[str, int],
    known: Iterable[str],
) -> Metric:
    family = kind(name, help_, labels=[label])
    for value in known:  # including zeros: an alert on a rate needs the value before the first increment
        family.add_metric([value], values.get(value, 0))
    return family


def _buckets(histogram: figures.Histogram) -> list[tuple[str, float]]:
    bounds = [str(bound) for bound in figures.BOUNDS]
    return [*zip(bounds, histogram.buckets, strict=True), ("+Inf", histogram.count)]
