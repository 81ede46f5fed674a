"""The suites of the sandbox once more, as a user that is not root: the shipped image runs so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.sandbox import unprivileged

SUITES = (
    "tests/agent/checks/test_forged_reports.py",
    "tests/sandbox/contract",
    "tests/sandbox/host",
    "tests/sandbox/jail",
    "tests/sandbox/proof",
    "tests/sandbox/test_folders.py",
    "tests/sandbox/test_local.py",
)


@pytest.mark.long
@pytest.mark.optional(reason="only for root; for others, every run of these tests is unprivileged")
async def test_the_suites_hold_for_a_worker_that_is_not_root(request: pytest.FixtureRequest) -> None:
    """In `make test-all` all of them, in CI the quick ones: what they decide here is the user, and not each depth."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run unprivileged already")
    folder = Path("/tmp") / f"selfheal-unprivileged-suites-{os.getpid()}"
    folder.mkdir(mode=0o755)
    tier = "all" if request.config.getoption("--tier") == "all" else "quick"
    options = ("-n0", "-q", "--tier", tier, "-p", "no:cacheprovider", "--basetemp", str(folder / "own" / "tests"))
    kinds = (
        "-k",
        "not e2b and not docker and not podman",
    )  # the stand-in of E2B needs root; an engine is another machine's root
    try:
        done = await unprivileged.run(folder, ("-m", "pytest", *options, *kinds, *SUITES), 600.0)
    finally:
        shutil.rmtree(folder)
    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
