"""Writes the current digest behind each image that a Dockerfile or a Compose file names: `python:3.12@sha256:…`.

    python3 deploy/pin_images.py Dockerfile deploy/bench/Dockerfile deploy/compose.yaml

Asks the image's registry through `docker buildx imagetools`. Standard library only, as CI runs it before anything is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# Names with a variable are this project's own image, and names without a tag are earlier stages.
_IMAGE = re.compile(r"^(?P<before>FROM |\s+image: )(?P<name>[\w./-]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?(?=\s|$)", re.MULTILINE)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def pinned(text: str) -> str:
    """The file's text with every digest as it is now. Raises `SystemExit` with the reason if a registry does not tell one."""
    digests = {name: digest_of(name) for name in sorted({found["name"] for found in _IMAGE.finditer(text)})}
    return _IMAGE.sub(lambda found: f"{found['before']}{found['name']}@{digests[found['name']]}", text)


def digest_of(name: str) -> str:
    command = ["docker", "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    digest = done.stdout.strip()
    if done.returncode or not _DIGEST.fullmatch(digest):
        raise SystemExit(f"{name}: no digest: {done.stderr.strip() or digest or 'no answer'}")
    return digest


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(pinned(path.read_text()))
