"""A failing step that deploys is told apart from one that tests."""

from __future__ import annotations

import pytest

from agent.ci.job.deployments import deployment
from agent.ci.job.selection import FailedJob

WORKFLOW = """\
on: push
jobs:
  job:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: The step
        {step}
"""


def of(step: str, name: str | None = "The step") -> str:
    return deployment(FailedJob("job", WORKFLOW.format(step=step), ".github/workflows/ci.yml", name))


@pytest.mark.parametrize(
    ("step", "with_what"),
    [
        ("run: twine upload dist/*", "twine upload"),
        ("run: python -m twine upload dist/*", "twine upload"),
        ("run: |\n          cd infra\n          terraform apply -auto-approve", "terraform apply"),
        ("run: kubectl rollout status deploy/web", "kubectl"),
        ("uses: pypa/gh-action-pypi-publish@release/v1", "pypa/gh-action-pypi-publish"),
        ("run: curl -fsS -X POST https://hooks.example/services/T0", "curl"),
        ("run: gh release create v1", "gh"),
        ("uses: actions/labeler@v5", "actions/labeler"),
        ("uses: codecov/codecov-action@v5", "codecov/codecov-action"),
        ("uses: aws-actions/configure-aws-credentials@v4", "aws-actions/configure-aws-credentials"),
    ],
)
def test_what_deploys_is_named(step: str, with_what: str) -> None:
    assert of(step) == with_what


@pytest.mark.parametrize(
    "step",
    [
        "run: pytest -q",
        "run: python -m build",
        "run: pytest tests/test_ssh.py -k aws",
        "run: twine check dist/*",
        "run: |\n          kubectl apply -f test-cluster.yml\n          pytest -q",
        "run: |\n          npm test\n          npm publish",
        "run: npm test && npm publish",
        "run: npm publish --dry-run",
        "run: curl -fsS https://install.example/tool.sh | sh",
        "run: |\n          curl -fsSO https://data.example/fixtures.json\n          pytest -q",
        "run: git diff --exit-code",
        "uses: pre-commit/action@v3",
        "run: mvn deploy",
        "uses: actions/setup-python@v5",
        "uses: ./.github/actions/deploy",
    ],
)
def test_what_tests_is_not(step: str) -> None:
    assert of(step) == ""


def test_a_hostile_script_is_read_at_once() -> None:
    assert of("run: '" + "; sudo " * 50_000 + " " * 100_000 + "'") == ""


def test_an_unknown_step_or_workflow_is_not() -> None:
    assert of("run: twine upload dist/*", None) == ""
    assert of("run: twine upload dist/*", "Another step") == ""
    assert deployment(FailedJob("job", None, "ci.yml", "The step")) == ""
    assert deployment(FailedJob("job", "{", "ci.yml", "The step")) == ""
