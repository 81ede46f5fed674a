# ruff: noqa: E501 - files, written as text
import json
import shlex
from pathlib import Path

import pytest

from agent.ci.runners.context import ShellContext, Unfollowed
from agent.ci.runners.tox.config import ROOT, Line
from agent.ci.runners.tox.tox import read_config
from agent.ci.runners.tox.values import conditional, names
from tests.agent.ci.runners.project import project

RECORDED = json.loads((Path(__file__).parent / "tox_recorded.json").read_text())


def context_of(recorded: dict) -> ShellContext:
    files = {
        recorded["file"]: recorded["text"],
        **({} if recorded["file"] == "pyproject.toml" else {"pyproject.toml": "[project]"}),
    }
    return ShellContext(project(files), recorded["env"], python="3.11")


@pytest.mark.parametrize("name", RECORDED)
def test_a_configuration_is_read_as_tox_reads_it(name: str) -> None:
    recorded = RECORDED[name]
    posargs = None if recorded["posargs"] is None else tuple(recorded["posargs"])
    config = read_config(context_of(recorded), recorded["file"], posargs)
    assert config is not None
    for env, said in recorded["tox"]["env"].items():
        ours = config.environment(env)
        assert [shown(line) for line in ours.commands] == [*said["commands_pre"], *said["commands"], *said["commands_post"]]
        assert [dep.replace(ROOT, "ROOT") for dep in ours.deps] == said["deps"]
        assert sorted(ours.extras) == sorted(said["extras"])
        assert sorted(ours.groups) == sorted(said["dependency_groups"])
        assert {key: value.replace(ROOT, "ROOT") for key, value in ours.set_env.items()} == said["set_env"]
        assert ours.change_dir.replace(ROOT, "ROOT") == said["change_dir"]
        skipped = said["package"] == "skip" or said.get("skip_install") is True
        assert ours.package is not skipped
        asked = [name.removeprefix("py").replace(".", "") for name in said["base_python"] if name not in ("py", "pypy")]
        assert [version.replace(".", "") for version in [ours.python] if version] == [
            python.removeprefix("thon") for python in asked
        ]


@pytest.mark.parametrize("name", [name for name in RECORDED if RECORDED[name]["tox"]["list"] != ["py"]])
def test_the_list_of_environments_is_that_of_tox(name: str) -> None:
    config = read_config(context_of(RECORDED[name]), RECORDED[name]["file"])
    assert config is not None
    assert config.env_list() == RECORDED[name]["tox"]["list"]


def shown(line: Line) -> str:
    return (f"{line.mark} " if line.mark else "") + shlex.join(line.words).replace(ROOT, "ROOT")


@pytest.mark.parametrize(
    "text",
    [
        "[testenv]\na = {[testenv]b}\nb = {[testenv]a}\ncommands = {[testenv]a}\n",
        "[testenv]\ncommands = {[testenv]commands}{[testenv]commands}\n",
        "[testenv]\nx = {[testenv]y}{[testenv]y}{[testenv]y}{[testenv]y}\ny = {[testenv]x}{[testenv]x}\ncommands = {[testenv]x}\n",
        "[testenv]\nchangedir = {changedir}\ncommands = x\n",
        "[testenv]\nsetenv =\n  A = {[testenv]setenv}\ncommands = {env:A}\n",
    ],
)
def test_substitutions_without_end_are_refused_by_name(text: str) -> None:
    config = read_config(ShellContext(project({"tox.ini": text})))
    assert config is not None
    with pytest.raises(Unfollowed, match=r"circular|without limit|too deep"):
        config.environment("py")


def test_a_list_of_environments_without_end_is_refused() -> None:
    with pytest.raises(Unfollowed, match="too long"):
        names("-".join("{a,b,c,d,e,f,g,h}" for _ in range(12)))
    with pytest.raises(Unfollowed, match="too long"):
        names("py{1-99999999}")
    assert conditional("-".join("{a,b,c,d,e,f,g,h}" for _ in range(12)) + ": x", "z") is None
