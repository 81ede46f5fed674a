"""A repository's files as `read_project` gives them, without a sandbox."""

from __future__ import annotations

import configparser
import os
import subprocess
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent.ci.project.asking import ToolAnswer
from agent.ci.project.detection import Project
from agent.ci.runners.context import Followed, Unfollowed
from agent.ci.runners.dispatch import follow
from sandbox.base import Sandbox, Workspace

FollowResult = Followed | Unfollowed | None


def project(files: Mapping[str, str]) -> Project:
    cfg, tox = configparser.ConfigParser(interpolation=None), configparser.ConfigParser(interpolation=None, strict=False)
    cfg.read_string(files.get("setup.cfg", ""))
    return Project(frozenset(files), tomllib.loads(files.get("pyproject.toml", "")), cfg, tox, files)


class SandboxWith:
    """A sandbox whose candidates have these files."""

    def __init__(self, sandbox: Sandbox, files: Mapping[str, str]) -> None:
        self.sandbox, self.files = sandbox, files

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        async with self.sandbox.candidate() as workspace:
            for name, text in self.files.items():
                await workspace.write(name, text.encode())
            yield workspace


def asking(line: Sequence[str], files: Mapping[str, str], folder: Path, env: Mapping[str, str] | None = None) -> FollowResult:
    """Follow a command line of our own files, with what this machine's tools say of them in `folder`."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    read = project(files)
    for _ in range(40):
        found = follow(line, read, env or {})
        if not read.answers.open:
            break
        for question in read.answers.open:
            given = {"PATH": os.environ["PATH"], **dict(question.env)}
            done = subprocess.run(
                question.argv, cwd=folder / question.cwd, capture_output=True, text=True, timeout=30, env=given, check=False
            )
            read.answers.known[question] = ToolAnswer(done.stdout, done.stderr, done.returncode)
        read.answers.open.clear()
    return found
