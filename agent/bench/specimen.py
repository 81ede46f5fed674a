"""What a benchmark is made of, as values: a broken repository, and a judge who knows more than the engine is shown.

A benchmark lists ids, poses one task at a time as a `Specimen`, and judges a repair of it in a sandbox of its own (`lab`), so
that nothing an attempt did can have a say in its score. Knows nothing of the app, of progress or of tables.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.ci.project.configuration import Configuration
from agent.contract.outcome import Repair
from agent.contract.proposal import Edits
from sandbox.base import MIB


class BadInput(Exception):
    """What the person gave cannot be used; the message is one line that names it and the way out."""


class NotPosed(Exception):
    """One task cannot be posed here: a download, a test that does not fail. Says nothing of the engine."""


class Skipped(Exception):
    """This is no task after all, and not counted as one: there is nothing to heal in it. The message says why."""


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    executable: bool = False


Files = Mapping[str, File]
"""A repository: POSIX paths relative to its root."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """One broken repository, as the engine gets to see it."""

    id: str
    files: Files
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge found of a repair. `heldout_correct` is None where there was nothing to judge it by."""

    heldout_correct: bool | None
    how: str  # what it was judged by, for people: "5 held-out tests", "212 inputs beside the reference"
    details: Mapping[str, Any] = field(default_factory=dict)  # the benchmark's own figures, plain data


class Trial(Protocol):
    """One task while it is worked on."""

    @property
    def specimen(self) -> Specimen: ...

    async def judge(self, repair: Repair) -> Judgement:
        """Raises `SandboxError`."""


async def packed(files: Files) -> AsyncIterator[bytes]:
    """The repository as a gzipped tar with one top folder, in chunks."""
    archive = io.BytesIO()
    # Fast rather than small: it only travels from this process to the sandbox.
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        top = tarfile.TarInfo("repository")
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(top)
        for path, file in sorted(files.items()):
            header = tarfile.TarInfo(f"repository/{path}")
            header.size, header.mode = len(file.content), 0o755 if file.executable else 0o644
            tar.addfile(header, io.BytesIO(file.content))
    archive.seek(0)
    while chunk := archive.read(MIB):
        yield chunk


def text_of(file: File) -> str | None:
    """None for what is not text."""
    try:
        return file.content.decode()
    except UnicodeDecodeError:
        return None


def changed(edits: Edits) -> dict[str, bytes | None]:
    """A repair as file contents; None removes a file."""
    return {change.path: None if change.after is None else change.after.encode() for change in edits}
