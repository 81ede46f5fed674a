# ruff: noqa: E501 - files, written as text
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.ci.project.asking import ToolAnswer
from agent.ci.runners.context import Followed, Unfollowed
from agent.ci.runners.dispatch import follow
from sandbox.base import Packages
from tests.agent.ci.runners.project import asking, project

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

# Modelled on what projects have. None of their lines calls another runner or installs, so the words are to be make's own.
CORPUS = {
    "phony": (".PHONY: test lint\ntest: lint\n\tpytest -q\nlint:\n\truff check .\n\tmypy src\n", "test"),
    "first target": ("VENV = .venv\nall: a b\na:\n\techo $@\nb: a\n\techo $@ $<\n", ""),
    "variables": (
        "PYTHON ?= python3\nARGS := -q\nARGS += -x\nLATE = $(SOON)\nSOON = tests\ntest:\n\t$(PYTHON) -m pytest $(ARGS) ${LATE}\n",
        "test",
    ),
    "given variables": (
        "PYTHON ?= python\nT = tests\ntest:\n\t$(PYTHON) -m pytest $(T)\n",
        "test T=tests/unit PYTHON=python3.11",
    ),
    "silent and careless": ("test:\n\t@echo start\n\t-rm -f report\n\t@-pytest -q\n\techo end\n", "test"),
    "continued": ("FILES = a.py \\\n  b.py\ntest:\n\tpytest $(FILES) \\\n\t  -q\n", "test"),
    "conditional": (
        "COV = 1\nifeq ($(COV),1)\nFLAGS = --cov\nelse\nFLAGS = --no-cov\nendif\nifdef FAST\nFLAGS += -x\nendif\ntest:\n\tpytest $(FLAGS)\n",
        "test",
    ),
    "conditional the other way": ("ifneq ($(COV),1)\nF = --no-cov\nelse\nF = --cov\nendif\nt:\n\tpytest $F\n", "t COV=0"),
    "dollar for the shell": ("test:\n\tfor i in 1 2; do echo $$i; done\n\techo $$HOME\n", "test"),
    "several targets": ("unit integration:\n\tpytest tests/$@\nall: unit integration\n\techo $^\n", "all"),
    "functions": (
        "SRC = a.c b.c\nOBJ = $(SRC:.c=.o)\nX = $(strip  a   b )\nt:\n\techo $(OBJ) $(X) $(addprefix src/,$(SRC)) $(filter-out a.c,$(SRC)) $(subst b,c,abb)\n",
        "t",
    ),
    "comments and exports": ("# all\nexport MODE = ci # why\nt: # none\n\t# said by the shell\n\tpytest # why\n", "t"),
    "recipe on the rule's line": ("t: ; pytest -q\n", "t"),
    "needs a file": ("t: setup.cfg\n\tpytest\nsetup.cfg:\n\ttouch $@\n", "t"),
    "order only and circles": ("t: a | b\n\tpytest\na: t\n\techo a\nb:\n\techo b\n", "t"),
    "double colon value": ("A ::= 1\nB = $(A)\nA = 2\nt:\n\techo $(B)\n", "t"),
}


@pytest.mark.parametrize("name", CORPUS)
def test_the_recipes_are_those_that_make_would_run(name: str, tmp_path: Path) -> None:
    text, arguments = CORPUS[name]
    (tmp_path / "Makefile").write_text(text)
    said = subprocess.run(
        ["make", "-n", *arguments.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    ).stdout
    found = asking(["make", *arguments.split()], {"Makefile": text}, tmp_path)
    assert isinstance(found, Followed), found
    ours = [line.removesuffix(" || true") for line in found.command.replace("\\\n", " ").split("\n")]
    theirs = [line for line in said.replace("\\\n", " ").split("\n") if line and not line.startswith("#")]
    assert [line.split() for line in ours] == [line.split() for line in theirs]


def test_a_target_is_followed_through_other_runners_to_its_packages_and_variables(tmp_path: Path) -> None:
    files = {
        "Makefile": "export MODE = ci\ninstall:\n\tpip install -e .[test]\ntest: install\n\ttox -e py311\n",
        "tox.ini": "[testenv]\ncommands = pytest\ndeps = attrs\nskip_install = true\n",
    }
    found = asking(shlex.split("FOO=1 make test"), files, tmp_path)
    assert isinstance(found, Followed)
    assert (found.command, found.env, found.python) == ("pytest", {"FOO": "1", "MODE": "ci"}, "3.11")
    assert found.packages == Packages(("attrs",), projects=(".[test]",), python="3.11")


def test_another_folder_and_each_line_is_a_shell_of_its_own(tmp_path: Path) -> None:
    text = "SUB = deep\nt:\n\tcd $(SUB) && pytest\n\t-false $(SUB) \\\n\t  x\n\t@$(MAKE) more\nmore:\n\tls\n"
    found = asking(["make", "-C", "sub", "t"], {"sub/Makefile": text}, tmp_path)
    assert isinstance(found, Followed)
    assert found.cwd == "sub"
    assert found.command.split("\n") == ["(", "cd deep && pytest", ")", "false deep    x || true", "ls"]


def test_what_only_make_itself_can_expand_is_followed(tmp_path: Path) -> None:
    text = "$(info reading)\ninclude more.mk\nA := $(shell echo a b)\n%.o: %.c\n\tcc $<\ndefine BOTH\npytest $(A)\nruff $(C)\nendef\n"
    files = {"Makefile": f"{text}t: x.o\n\t$(BOTH)\n", "more.mk": "C = check\n", "x.c": ""}
    found = asking(["make", "t"], files, tmp_path)
    assert isinstance(found, Followed)
    assert (found.command, found.notes) == ("cc x.c\npytest a b\nruff check", ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no Makefile"),
        ("other:\n\tls\n", "No rule to make target 't'"),
        ("A = $(B)\nB = $(A)\nt:\n\techo $(A)\n", "references itself"),
        ("t:\n\techo $(A\n", "unterminated variable reference"),
    ],
)
def test_what_cannot_be_followed_says_why(text: str, reason: str, tmp_path: Path) -> None:
    found = asking(["make", "t"], {"Makefile": text} if text else {}, tmp_path)
    assert isinstance(found, Unfollowed)
    assert any(part in found.reason for part in reason.split("|"))


def test_make_that_calls_itself_ends(tmp_path: Path) -> None:
    found = asking(["make", "t"], {"Makefile": "t:\n\t$(MAKE) t\n"}, tmp_path)
    assert isinstance(found, Followed)
    assert any("more than" in note for note in found.notes)


def test_what_was_not_asked_is_said() -> None:
    read = project({"Makefile": "t:\n\tls\n"})
    found = follow(["make", "t"], read, {})
    assert isinstance(found, Unfollowed)
    assert found.reason == "the tool was not asked what it runs"
    assert [question.argv[0] for question in read.answers.open] == ["bash"]


def test_many_careless_lines_are_read_in_bounded_time() -> None:
    read = project({"Makefile": "t:\n" + "\t-a $(B) c\n" * 40_000})
    follow(["make", "t"], read, {})
    (question,) = read.answers.open
    read.answers.known[question] = ToolAnswer("A=1\0\0\1A=1\0B=2\0\0" + "a b\n" * 3_000)
    found = follow(["make", "t"], read, {})
    assert isinstance(found, Followed)
    assert found.env == {"B": "2"}


def test_what_a_recipe_announces_is_no_command(tmp_path: Path) -> None:
    text = "FLAGS = -v\ntest: deps\n\t$(info **** running tests with $(FLAGS) ****)\n\tgo test $(FLAGS) ./...\ndeps:\n\t$(info *** deps)\n\tgo get ./...\n"
    found = asking(["make", "test"], {"Makefile": text}, tmp_path)
    assert isinstance(found, Followed)
    assert found.command == "go test -v ./..."


@pytest.mark.parametrize(
    "text",
    [
        "t:\n\t@$(info $(GO) test)\n\t$(GO) test\n",
        "t: vet\n\t$(info $(GO) test)\n\t$(GO) test -v\nvet:\n\tgo vet && go test\n",
        "RUN = go test\nt: u\n\t$(info $(GO) test)\n\t$(RUN)\nu:\n\tgo vet\n",
        "other:\n\t$(info $(GO) test)\nRUN = go test\nt:\n\t$(RUN)\n",
    ],
)
def test_no_command_is_lost_to_an_announcement_that_looks_like_it(text: str, tmp_path: Path) -> None:
    found = asking(["make", "t"], {"Makefile": f"GO = go\n{text}"}, tmp_path)
    assert isinstance(found, Unfollowed)
    assert "looks like its commands" in found.reason


def test_a_variable_that_only_the_shell_can_expand_is_not_given_to_make(tmp_path: Path) -> None:
    files = {"Makefile": "test:\n\tgo test $(FLAGS) ./...\n"}
    found = asking(["PATH=$HOME/go/bin:$PATH", "make", "test"], files, tmp_path)
    assert isinstance(found, Followed)
    assert (found.command, found.env) == ("go test  ./...", {})
    assert isinstance(asking(["FLAGS=$(flags)", "make", "test"], files, tmp_path), Unfollowed)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("richgo test -v ./...", "go test -v ./..."),
        ("gotestsum --format testname -- -race ./...", "go test -race ./..."),
        ("gotestsum", "go test ./..."),
    ],
)
def test_programs_that_show_the_results_of_go_are_followed_to_it(line: str, command: str) -> None:
    found = follow(line.split(), project({}), {})
    assert isinstance(found, Followed)
    assert found.command == command
