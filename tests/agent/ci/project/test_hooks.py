"""Hooks become commands only where a command over all files does what the hook does."""

import pytest

from agent.ci.project.hooks import Hooks, read_hooks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("repos: [{repo: a, rev: 24.1.0, hooks: [{id: black}]}]", Hooks("black --check .", ("black==24.1.0",), ())),
        ("repos: [{repo: a, rev: stable, hooks: [{id: isort}]}]", Hooks("isort --check-only .", ("isort",), ())),
        ("repos: [{repo: a, rev: v1.0, hooks: [{id: black, exclude: x}]}]", Hooks("", (), ("black",))),
        (
            "repos: [{repo: local, hooks: [{id: own, entry: make lint, language: system, pass_filenames: false}]}]",
            Hooks("make lint", (), ()),
        ),
        ("repos: [{repo: local, hooks: [{id: own, entry: x, language: system}]}]", Hooks("", (), ("own",))),
        ("exclude: ^docs/\nrepos: [{repo: a, rev: v1.0, hooks: [{id: black}]}]", Hooks("", (), ())),
        ("repos: &a [*a]", Hooks("", (), ())),
        ("repos: [", Hooks("", (), ())),
        ("- 1", Hooks("", (), ())),
        ("repos: 3", Hooks("", (), ())),
        ("", Hooks("", (), ())),
    ],
)
def test_hooks_as_commands(text: str, expected: Hooks) -> None:
    assert read_hooks(text) == expected
