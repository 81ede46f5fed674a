"""What a log says about a lock file that is out of date."""

import pytest

from agent.proposers.tools.dependencies import lock_notes


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("error: The lockfile at `uv.lock` needs to be updated, but `--locked` was provided.", "uv lock"),
        ("pyproject.toml changed significantly since poetry.lock was last generated. Run `poetry lock`", "poetry lock"),
        (
            "npm ci can only install packages when your package.json and package-lock.json or x are in sync.",
            "npm install --package-lock-only",
        ),
        ("ERR_PNPM_OUTDATED_LOCKFILE  Cannot install", "pnpm install --lockfile-only"),
        ("YN0028: The lockfile would have been modified by this install, which is explicitly forbidden.", "yarn install"),
        ("error: the lock file /w/Cargo.lock needs to be updated but --locked was passed", "cargo update --workspace"),
    ],
)
def test_the_note_names_the_command_that_regenerates_the_lock(said: str, command: str) -> None:
    (note,) = lock_notes(["something else", f"2024 {said}"])
    assert f"run `{command}`" in note
    assert "needs the package index" in note


def test_other_failures_get_no_note() -> None:
    assert lock_notes(["AssertionError: uv.lock", "poetry.lock"]) == []
