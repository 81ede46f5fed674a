"""The contexts of a step's expressions: facts about the run, and the results of earlier steps.

Knows names and values, not files. Values that only GitHub knows are `Unknown`: an empty text might decide a condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from agent.ci.expressions import Scope, Unknown, Value
from agent.ci.expressions.values import Files, no_files

TOKEN = "GITHUB_TOKEN"  # noqa: S105 - a name
PULLS = ("pull_request", "pull_request_target")
TEMP = "/tmp"  # noqa: S108 - inside the sandbox
TOOLS = f"{TEMP}/tools"
_NAMES = re.compile(r"\bGITHUB_[A-Z_]+\b")


@dataclass(frozen=True, slots=True)
class Run:
    """What is known about the failed run besides its files; "" if unknown."""

    workflow: str = ""  # name of the workflow
    job: str = ""  # id of the job
    sha: str = ""
    branch: str = ""
    repository: str = ""  # "owner/name"
    event: str = "push"
    root: str = "."  # path of the repository, as the steps see it
    id: str = ""  # GitHub's id of the run
    attempt: str = ""  # number of the attempt: "1" for the first
    tag: str = ""  # the newest one that the commit contains
    committed: datetime | None = None  # when the commit was made
    api_url: str = "https://api.github.com"  # of the REST API

    @property
    def server_url(self) -> str:
        return web_address(self.api_url)


def web_address(api_url: str) -> str:
    """Where the pages are of github.com, GitHub Enterprise Server or GitHub Enterprise Cloud, by the URL of its REST API."""
    parts = urlsplit(api_url)
    host = parts.netloc.removeprefix("api.") if not parts.path else parts.netloc
    return f"{parts.scheme}://{host}{parts.path.removesuffix('/api/v3')}".rstrip("/")


def build_scope(run: Run, files: Files = no_files, *, action_path: str = "", **known: Mapping[str, Value]) -> Scope:
    """`known`: `env`, `matrix`, `steps` (id → outputs, outcome, conclusion), `inputs`, and `services` as in `job.services`."""
    contexts: dict[str, Value] = {
        "github": _github(run, action_path),
        **{name: dict(known.get(name, {})) for name in ("env", "matrix", "steps", "inputs")},
        "job": {"status": "success", "services": known.get("services", {})},
        "runner": {
            "os": "Linux", "arch": "X64", "name": "selfheal", "temp": TEMP, "tool_cache": TOOLS, "debug": "",
            "environment": "self-hosted", "workspace": run.root,
        },
        "strategy": {"fail-fast": True, "job-index": Unknown("strategy.job-index"), "job-total": Unknown("strategy.job-total")},
        "needs": Unknown("needs"),
        "vars": Unknown("vars"),
        "secrets": Unknown("secrets"),
    }  # fmt: skip
    return Scope(contexts, files=files)


def with_empty_token(scope: Scope, named: Sequence[str]) -> Scope:
    """A scope with an empty `GITHUB_TOKEN`; the other `named` secrets stay unknown."""
    secrets: dict[str, Value] = {name: Unknown(f"secrets.{name}") for name in named if name.upper() != TOKEN}
    return Scope({**scope.contexts, "secrets": {**secrets, TOKEN: ""}}, scope.status, scope.files)


def default_variables(run: Run) -> dict[str, str]:
    """The variables that GitHub sets for every step, as far as they are known.

    https://docs.github.com/actions/reference/workflows-and-actions/variables#default-environment-variables
    """
    github = _github(run)
    known = {f"GITHUB_{name.upper()}": value for name, value in github.items() if name in _SHOWN and isinstance(value, str)}
    runner = {"OS": "Linux", "ARCH": "X64", "NAME": "selfheal", "ENVIRONMENT": "self-hosted", "TEMP": TEMP, "TOOL_CACHE": TOOLS}
    return {"CI": "true", "GITHUB_ACTIONS": "true", **known, **{f"RUNNER_{name}": value for name, value in runner.items()}}


def unknown_variables(text: str, env: Mapping[str, str]) -> list[str]:
    """The variables of GitHub's runner that a step's `text` names and whose values are unknown here."""
    return sorted({name for name in _NAMES.findall(text) if name.partition("_")[2].lower() in _SHOWN and name not in env})


# The keys of the `github` context that are also variables; others are set when a step starts.
_SHOWN = frozenset({
    "actor", "actor_id", "api_url", "base_ref", "event_name", "event_path", "graphql_url", "head_ref", "job", "ref", "ref_name",
    "ref_protected", "ref_type", "repository", "repository_id", "repository_owner", "repository_owner_id", "retention_days",
    "run_attempt", "run_id", "run_number", "server_url", "sha", "triggering_actor", "workflow", "workflow_ref", "workflow_sha",
})  # fmt: skip


def _github(run: Run, action_path: str = "") -> dict[str, Value]:
    def known(value: str, name: str) -> Value:
        return value or Unknown(f"github.{name}")

    is_pull = run.event in PULLS
    return {
        "workspace": run.root,
        "action_path": action_path,
        "workflow": run.workflow,
        "job": run.job,
        "event_name": run.event,
        "sha": known(run.sha, "sha"),
        "ref": f"refs/heads/{run.branch}" if run.branch and not is_pull else Unknown("github.ref"),
        "ref_name": known("" if is_pull else run.branch, "ref_name"),
        "ref_type": "branch",
        "head_ref": known(run.branch, "head_ref") if is_pull else "",
        "base_ref": Unknown("github.base_ref") if is_pull else "",
        "repository": known(run.repository, "repository"),
        "repository_owner": known(run.repository.partition("/")[0], "repository_owner"),
        "actor": Unknown("github.actor"),
        "run_number": Unknown("github.run_number"),
        "run_id": known(run.id, "run_id"),
        "run_attempt": known(run.attempt, "run_attempt"),
        "server_url": run.server_url,
        "api_url": run.api_url,
        "graphql_url": f"{run.api_url.removesuffix('/v3')}/graphql",
        "token": "",
        "event": Unknown("github.event"),
    }
