import shlex

import pytest

from agent.ci.project.install_commands import installs, provisions
from sandbox.base import Packages


def test_installs_become_packages() -> None:
    assert installs(shlex.split("python -m pip install --upgrade pip setuptools")) == Packages(("setuptools",))
    line = "pip install -r requirements-dev.txt -c constraints.txt 'attrs>=23' -e '.[test]' ./sub"
    assert installs(shlex.split(line)) == Packages(
        requirements=("attrs>=23",),
        requirement_files=("requirements-dev.txt",),
        constraint_files=("constraints.txt",),
        projects=(".[test]", "sub"),
    )


def test_an_install_from_elsewhere_is_no_package() -> None:
    line = "pip install --index-url https://evil.example/ git+https://evil.example/x $THING -e git+https://e/x"
    assert installs(line.split()) == Packages()


def test_the_values_of_pips_options_are_no_packages() -> None:
    line = "pip install --upgrade-strategy eager -U --root-user-action ignore --only-binary :all: attrs --group dev"
    assert installs(line.split()) == Packages(("attrs",), groups=("dev",))


@pytest.mark.parametrize("python", ["python -Im", "python3.12 -W error -m", "/env/bin/python -m"])
def test_pip_is_a_module_of_python_however_that_is_called(python: str) -> None:
    assert installs(f"{python} pip install -U coverage".split()) == Packages(("coverage",))


def test_who_installs_makes_no_difference() -> None:
    assert installs(["sudo", "-H", "pip3", "install", "attrs"]) == Packages(("attrs",))
    assert installs(["sudo", "apt-get", "install", "libxml2"]) is None


def test_tools_with_an_environment_of_their_own_are_left_out_where_they_are_stood_in_for() -> None:
    assert installs(["pipx", "install", "poetry==1.8", "black", "tox>=4"]) == Packages(("black",))
    assert installs(["uv", "tool", "install", "nox[uv]", "towncrier==$VERSION", "towncrier"]) == Packages(("towncrier",))


@pytest.mark.parametrize(
    ("line", "is_so"),
    [
        ("sudo apt-get install -y libxml2-dev", True),
        ("apt-get update", True),
        ("curl -LsSf https://example.org/install.sh", True),
        ("git submodule update --init", True),
        ("git config user.name a", False),
        ("git --version", False),
        ("python -m playwright install --with-deps", True),
        ("playwright test", False),
        ("sudo make test", False),
        ("pytest", False),
    ],
)
def test_what_only_makes_a_machine_ready(line: str, is_so: bool) -> None:
    assert provisions(line.split()) is is_so
