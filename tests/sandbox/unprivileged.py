"""Runs a program as a user that is not root, as the shipped image does, on a machine where the tests run as root."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

UID = 65534
_SCRIPT = f"""
work=$1; shift
# Rebuild the path to each tree out of folders that everybody may pass.
mount -t tmpfs -o mode=0755 t "$work/stage"; n=0
for tree in "$1" "$2" "$3"; do n=$((n + 1)); mkdir "$work/stage/$n"; mount --bind "$tree" "$work/stage/$n"; done
n=0
for tree in "$1" "$2" "$3"; do
    n=$((n + 1)); top=/$(echo "$tree" | cut -d/ -f2)
    [ "$top" = /tmp ] || [ "$top" = /usr ] || [ -e "$top/.selfheal" ] || {{
        mount -t tmpfs -o mode=0755 t "$top"; : > "$top/.selfheal"
    }}
    mkdir -p "$tree"; mount --bind "$work/stage/$n" "$tree"
done
mkdir "$work/own" "$work/own/tmp"; chown {UID}:{UID} "$work/own" "$work/own/tmp"; cd "$3"; shift 3
exec setpriv --reuid {UID} --regid {UID} --clear-groups --bounding-set -all --no-new-privs "$@"
"""


async def run(folder: Path, arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run this Python with `arguments` in the project's folder. The program may write to `folder / "own"`.

    `folder` must be new and reachable for everybody. Needs root.
    """
    (folder / "stage").mkdir()
    shown = [str(Path(sys.base_prefix).resolve()), sys.prefix, str(Path(__file__).parents[2])]
    own = folder / "own"
    return await asyncio.to_thread(
        subprocess.run,
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _SCRIPT, "sh",
         str(folder), *shown, sys.executable, *arguments],
        capture_output=True, text=True, timeout=seconds, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(own), "TMPDIR": str(own / "tmp")},
    )  # fmt: skip
