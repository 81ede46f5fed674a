"""Recognizes a test that fails only because the sandbox lacks something that CI has. It counts as skipped."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

from ..wire.channel import Channel, chain, relative_path


def lack_behind(error: BaseException | None, absent: Sequence[str], root: str) -> str:
    """What of `absent` (as in the request: modules, and folders with a slash at the end) the failure shows; "" if nothing."""
    for link in chain(error) if absent else ():
        if isinstance(link, ModuleNotFoundError) and isinstance(link.name, str):
            module = link.name.partition(".")[0]
            if module.lower() in absent:
                return "the package of the module " + module
        if isinstance(link, OSError) and link.errno in (errno.ENOENT, errno.ENOTDIR):
            file = link.filename
            path = relative_path(os.fspath(file), root) if isinstance(file, (str, os.PathLike)) else None
            folder = next((each for each in absent if path and each.endswith("/") and (path + "/").startswith(each)), "")
            if folder:
                return "the folder " + folder[:-1]
    return ""


def excuse(report: Any, error: BaseException, channel: Channel) -> bool:
    """Turn pytest's report of a failure into that of a skipped test if the sandbox's lack explains it; returns whether."""
    lack = lack_behind(error, channel.absent, channel.root)
    if lack:
        file = report.nodeid.partition("::")[0]
        report.outcome, report.longrepr = "skipped", (file, 0, "Skipped: %s is not available in the sandbox" % lack)
    return bool(lack)
