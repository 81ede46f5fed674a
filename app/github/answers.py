"""Parses GitHub's JSON responses into our values: pure, lenient about all unused fields.

A response without a needed field raises `Unavailable`: that is infrastructure, not a fact about the repository.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from app.github.errors import Unavailable
from app.github.types import (
    CheckRunRef,
    Comment,
    Commit,
    ForeignCheck,
    Job,
    Permission,
    PullRequest,
    Step,
    WorkflowRun,
)
from webhooks.triggers import FAILING

T = TypeVar("T")


def parsed(read: Callable[[Any], T], answer: Any) -> T:
    """`read(answer)`; a response of another shape raises `Unavailable`."""
    try:
        return read(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unavailable(f"GitHub's response lacks a needed field ({read.__name__}: {error})") from error


def workflow_run(data: Any) -> WorkflowRun:
    return WorkflowRun(
        id=int(data["id"]),
        name=str(data.get("name") or data["path"]),
        path=str(data["path"]).partition("@")[0],  # a reusable workflow's path carries its ref
        head_sha=str(data["head_sha"]),
        head_branch=data.get("head_branch"),
        event=str(data.get("event", "")),
        status=str(data.get("status", "")),
        conclusion=data.get("conclusion"),
        attempt=int(data.get("run_attempt") or 1),
        url=str(data["html_url"]),
    )


def job(data: Any, workflow_path: str) -> Job:
    return Job(
        id=int(data["id"]),
        name=str(data["name"]),
        conclusion=data.get("conclusion"),
        workflow_path=workflow_path,
        head_sha=str(data["head_sha"]),
        steps=tuple(Step(int(s["number"]), str(s["name"]), s.get("conclusion")) for s in data.get("steps") or ()),
        url=str(data.get("html_url") or ""),
        failed_at=_started_at(next((s for s in data.get("steps") or () if s.get("conclusion") in FAILING), data)),
    )


def _started_at(data: Any) -> datetime | None:
    started_at = data.get("started_at")
    return datetime.fromisoformat(started_at) if started_at else None


def foreign_check(data: Any) -> ForeignCheck:
    output = data.get("output") or {}
    return ForeignCheck(
        id=int(data["id"]),
        name=str(data["name"]),
        app=str((data.get("app") or {}).get("slug") or ""),
        conclusion=data.get("conclusion"),
        title=str(output.get("title") or ""),
        summary=str(output.get("summary") or ""),
        url=str(data.get("html_url") or data.get("details_url") or ""),
    )


def git_commit(data: Any) -> Commit:
    return Commit(
        sha=str(data["sha"]),
        tree=str(data["tree"]["sha"]),
        parents=tuple(str(parent["sha"]) for parent in data["parents"]),
        message=str(data["message"]),
    )


def pull_request(data: Any) -> PullRequest:
    head_repository = data["head"].get("repo")
    return PullRequest(
        number=int(data["number"]),
        url=str(data["html_url"]),
        state="open" if data["state"] == "open" else "closed",
        draft=bool(data.get("draft")),
        merged=bool(data.get("merged_at")),
        title=str(data["title"]),
        body=str(data.get("body") or ""),
        head_sha=str(data["head"]["sha"]),
        head_branch=str(data["head"]["ref"]),
        head_repository=str(head_repository["full_name"]) if head_repository else None,
        base_branch=str(data["base"]["ref"]),
        labels=tuple(str(label["name"]) for label in data.get("labels") or ()),
    )


def permission(data: Any) -> Permission:
    """A custom role counts as its base permission."""
    role = data.get("role_name")
    return Permission(role) if role in tuple(Permission) else Permission(data["permission"])


def comment(data: Any) -> Comment:
    return Comment(int(data["id"]), str(data["html_url"]), str(data.get("body") or ""))


def check_run(data: Any) -> CheckRunRef:
    return CheckRunRef(int(data["id"]), str(data.get("html_url") or ""))
