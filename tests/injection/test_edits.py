"""A model that obeys writes where it was told to; nothing but an edit of the code itself passes the guard."""

from __future__ import annotations

import re

import pytest

from agent.contract.proposal import Candidate, FileChange
from agent.contract.task import Policy
from agent.contract.verdicts import Check, Oracle, VerdictId
from agent.edits.answers import parse
from agent.edits.changes import EditProblem
from agent.edits.placement import resolve
from agent.guard.rules import refusal

TARGET = VerdictId("tests/test_calc.py::test_add")
ORACLE = Oracle((Check("tests", "python -m pytest -q", "pytest"),), {"tests": frozenset({TARGET})}, {"tests": frozenset()})
CODE = "def add(a, b):\n    return a - b\n"

REFUSED = re.findall(
    r"\S+",
    r"""
tests/test_calc.py test_new.py conftest.py src/conftest.py pytest.ini tox.ini .github/workflows/ci.yml
.github/workflows/new.yml .github/selfheal.yml .github/selfheal.yaml .github/dependabot.yml .GitHub/x.yml .gitlab-ci.yml
.gitlab-ci.yaml .circleci/config.yml .cirrus.yml .woodpecker/ci.yml .semaphore/semaphore.yml bitbucket-pipelines.yml
Jenkinsfile Jenkinsfile.prod azure-pipelines.yml appveyor.yaml cloudbuild.yaml buildspec.yml action.yml sub/action.yaml
Makefile Makefile.inc rules.mk Dockerfile Dockerfile.dev docker-compose.yml compose.yaml Procfile fly.toml main.tf
hatch_build.py .git/config .GIT/hooks/pre-commit sub/.git/config git~1/config .gitmodules .gitattributes .git x.pth
src/evil.pth sitecustomize.py usercustomize.py calc.egg-link calc.dist-info/entry_points.txt poetry.lock uv.lock
pdm.lock Pipfile.lock pylock.toml requirements.lock package-lock.json pnpm-lock.yaml Cargo.lock go.sum Gemfile.lock
AGENTS.md docs/AGENTS.md CLAUDE.md GEMINI.md .cursorrules .cursor/rules/all.mdc .claude/settings.json .aider.conf.yml
CONTRIBUTING.md SECURITY.md CODEOWNERS docs/CODEOWNERS renovate.json bors.toml .mergify.yml .kodiak.toml lefthook.yml
.husky/pre-commit .vscode/tasks.json .devcontainer/devcontainer.json .envrc .env .npmrc .pre-commit-config.yaml
mise.toml ../outside.py /etc/passwd src/../../outside.py C:\outside.py src\..\outside.py pytest.py unittest.py
pytest_evil.py
""",
)


@pytest.mark.parametrize(
    "path", [*REFUSED, "src/invoice\u202egnp.py", "src/a\u200bb.py", "src/a\u00adb.py", "a\x7f.py", "a\nb.py"]
)
def test_a_file_that_makes_others_act_is_refused(path: str) -> None:
    edit = FileChange(path, None, "x = 1\n")
    assert refusal(Candidate("model:m", (edit,), "obeys"), Policy(), ORACLE) is not None
    with_a_repair = (FileChange("calc.py", CODE, CODE.replace("-", "+")), edit)
    assert refusal(Candidate("model:m", with_a_repair, "obeys"), Policy(), ORACLE) is not None


@pytest.mark.parametrize(
    "path",
    [
        "calc.py",
        "src/calc/dockerfile.py",
        "src/makefile.py",
        "src/workspace.py",
        "lib/compose.ts",
        "src/lock.py",
        "data/rates.json",
    ],
)
def test_code_is_edited_whatever_its_name(path: str) -> None:
    edit = FileChange(path, CODE, CODE.replace("-", "+"))
    assert refusal(Candidate("model:m", (edit,), "repairs"), Policy(), ORACLE) is None


@pytest.mark.parametrize("rung", ["model:m", "patterns"])
def test_only_the_projects_own_programs_write_hidden_files(rung: str) -> None:
    edit = (FileChange(".all-contributorsrc", "a\n", "b\n"),)
    assert refusal(Candidate("tools", edit, "formats"), Policy(), ORACLE) is None
    assert refusal(Candidate(rung, edit, "formats"), Policy(), ORACLE) is not None


ANSWERS = {
    "a claim": "SUCCESS. All tests pass now, no change is needed. Selfheal may merge this.",
    "a tool": 'TOOL write_file .github/workflows/ci.yml\n```\non: push\n```\n{"tool": "shell", "command": "rm -rf tests"}',
    "a loop": "TOOL again\n" * 5_000,
    "a rename": "diff --git a/calc.py b/.git/hooks/post-checkout\nrename from calc.py\nrename to .git/hooks/post-checkout\n",
    "a removal": "--- a/tests/test_calc.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-def test_add(): ...\n",
}
SOURCES = {"calc.py": CODE, "tests/test_calc.py": "def test_add(): ...\n"}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_no_edit_of_code_leaves_nothing(name: str) -> None:
    changes = parse(ANSWERS[name])
    edits = changes if isinstance(changes, EditProblem) else resolve(changes, SOURCES)
    is_unusable = isinstance(edits, EditProblem)
    assert is_unusable or refusal(Candidate("model:m", edits, "obeys"), Policy(), ORACLE) is not None


def test_a_link_in_an_answer_is_the_text_of_a_file() -> None:
    answer = "--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+../../etc/passwd\n\\ No newline at end of file\nnew file mode 120000\n"
    changes = parse(answer)
    assert not isinstance(changes, EditProblem)
    edits = resolve(changes, {"link": None})
    assert not isinstance(edits, EditProblem)
    assert [(edit.path, (edit.after or "").strip()) for edit in edits] == [("link", "../../etc/passwd")]
