"""What a log says about a lock file that is out of date."""

import pytest

from agent.proposers.tools.locks import remarks


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
def test_the_person_is_told_which_command_mends_it(said: str, command: str) -> None:
    (remark,) = remarks(["something else", f"2024 {said}"])
    assert f"run `{command}`" in remark
    assert "needs the package index" in remark


def test_nothing_is_said_of_other_failures() -> None:
    assert remarks(["AssertionError: uv.lock", "poetry.lock"]) == []
