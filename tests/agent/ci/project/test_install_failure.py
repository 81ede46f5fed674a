"""Who is to blame for an install step that is red; the texts are what uv 0.8 and pip 26 said on small failing projects."""

from __future__ import annotations

import pytest

from agent.ci.project import install_failure
from agent.ci.project.detection import Project
from agent.ci.project.optional import optional_names
from agent.contract.outcome import Outcome
from sandbox.base import InstallFailed, Packages
from sandbox.install.download import DownloadRefused
from sandbox.install.sources.fetch import SourcesUnavailable

NONE = """Using Python 3.11.7 environment at: /env
error: No solution found when resolving dependencies
  cause: Because nosuchpkg-zzz was not found in the package registry and you require nosuchpkg-zzz==9.9.9, we can conclude \
that your requirements are unsatisfiable.
"""
CONFLICT = """error: No solution found when resolving dependencies
  cause: Because pytest==8.0.0 depends on pluggy>=1.3.0,<2.0 and you require pytest==8.0.0, we can conclude that you require \
pluggy>=1.3.0,<2.0.
         And because you require pluggy==0.5, we can conclude that your requirements are unsatisfiable.
"""
BUILD = """error: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.prepare_metadata_for_build_wheel` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
           File "<string>", line 8, in <module>
         RuntimeError: no luck here
"""
PIP = """ERROR: Could not find a version that satisfies the requirement pytest==99.1 (from versions: 2.0.0, 2.0.1)
ERROR: No matching distribution found for pytest==99.1
"""
AWAY = """error: Failed to fetch: http://127.0.0.1:9/simple/pytest/
  cause: error sending request for url (http://127.0.0.1:9/simple/pytest/)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
OFF = """error: No solution found when resolving dependencies
  cause: Because pytest was not found in the provided package locations and you require pytest, we can conclude that your \
requirements are unsatisfiable.

hint: Packages were unavailable because index lookups were disabled and no additional package locations were provided
"""
HEADER = """error: Failed to build `psycopg2==2.9.9`
  cause: The build backend returned an error
         [stderr]
         Error: pg_config executable not found.
"""
NEEDED_BY = """error: Failed to build `broken==1.0`
  cause: The build backend returned an error
         [stdout]
         Building without Cython.

hint: `broken` (v1.0) was included because `app` (v1.0) depends on `broken`
"""
PIP_BUILD = """Collecting pytest
  Building without Cython.
ERROR: Some trouble with wheels of app
"""


@pytest.mark.parametrize(
    ("said", "failing", "message"),
    [
        (NONE, "nosuchpkg-zzz", "Because nosuchpkg-zzz was not found in the package registry"),
        (CONFLICT, "pluggy", "And because you require pluggy==0.5"),
        (BUILD, "install", "it ended"),
        (PIP, "pytest==99.1", "it ended"),
    ],
)
def test_what_the_repository_asks_for_is_a_red_run_with_the_installers_words(said: str, failing: str, message: str) -> None:
    failed = InstallFailed("it ended", said)
    run = install_failure.run_of(failed)
    assert run is not None
    assert run.red == {failing}
    assert message in run.failures[0].message
    assert "\n" not in run.failures[0].message
    ending = install_failure.unmet(failed, was_met=False)
    assert ending.outcome is Outcome.GAVE_UP
    assert "because of a dependency" in ending.reason
    assert install_failure.unmet(failed, was_met=True).outcome is Outcome.NOT_REPRODUCED


@pytest.mark.parametrize("said", [AWAY, OFF, HEADER, "npm took longer than 900 s", ""])
def test_what_the_machine_lacks_is_its_own_trouble(said: str) -> None:
    failed = InstallFailed("it ended", said)
    assert install_failure.run_of(failed) is None
    ending = install_failure.out_of_reach(failed)
    assert ending.outcome is Outcome.INFRASTRUCTURE
    assert ending.reason.count("could not be installed") == 1


def test_a_bound_of_downloads_is_named_with_the_setting_that_raises_it() -> None:
    refused = DownloadRefused("downloading the packages takes more than 900 s (SELFHEAL_DOWNLOAD_SECONDS raises this limit)")
    assert install_failure.run_of(refused) is None
    ending = install_failure.out_of_reach(refused)
    assert "SELFHEAL_DOWNLOAD_SECONDS raises" in ending.reason
    assert "Raise the limit" in ending.next_step


def test_sources_that_cannot_be_fetched_are_the_machine_s_trouble_with_their_own_next_step() -> None:
    failed = SourcesUnavailable("the crates that Cargo.lock names could not be fetched", "Name another index.")
    assert install_failure.run_of(failed) is None
    ending = install_failure.out_of_reach(failed)
    assert (ending.outcome, ending.next_step) == (Outcome.INFRASTRUCTURE, "Name another index.")


BACKTRACKED = """error: No solution found when resolving dependencies
  cause: Because mine[test]==1 depends on respx>0.22 and respx==0.23 depends on httpx>=0.25, we can conclude that \
mine[test]==1 depends on httpx>=0.25.
         And because you require httpx<0.20, we can conclude that your requirements are unsatisfiable.
"""


@pytest.mark.parametrize(
    ("said", "optional", "states", "name"),
    [
        (HEADER, {"psycopg2"}, True, "psycopg2"),
        (HEADER, {"other"}, False, ""),  # the code itself needs it
        (BACKTRACKED, {"respx", "pytest"}, True, "respx"),
        (BACKTRACKED, set(), False, ""),
        (NONE, {"nosuchpkg-zzz"}, False, "nosuchpkg-zzz"),
        (NONE, {"nosuchpkg-zzz"}, True, ""),  # CI's install step fails too
        (PIP, {"pytest"}, False, "pytest"),
        (NEEDED_BY, {"cython", "pytest"}, False, ""),  # the output only mentions it
        (NEEDED_BY, {"cython", "app"}, True, "app"),
        (PIP_BUILD, {"pytest", "cython"}, False, ""),
        (PIP_BUILD, {"pytest", "app"}, False, "app"),
        (AWAY, {"pytest"}, False, ""),
        (OFF, {"pytest"}, False, ""),
        ("npm error code ETARGET\nnpm error notarget No matching version found for build@^99.\n", {"build"}, False, ""),
    ],
)
def test_an_optional_distribution_that_cannot_be_had_is_found(said: str, optional: set[str], states: bool, name: str) -> None:
    assert install_failure.unavailable(InstallFailed("it ended", said), optional, states=states) == name


def test_a_failed_build_is_told_with_its_last_error() -> None:
    words = install_failure.in_words(InstallFailed("error: Failed to build `psycopg2==2.9.9`", HEADER))
    assert words == "error: Failed to build `psycopg2==2.9.9`: Error: pg_config executable not found."


def test_what_the_code_itself_needs_is_not_optional() -> None:
    project = Project.of_texts(
        {
            "pyproject.toml": """
                [project]
                dependencies = ["Needed>=1"]
                [project.optional-dependencies]
                test = ["needed[more]", "Only.Tests", "pytest"]
                [dependency-groups]
                dev = ["tool"]
                other = ["not-installed"]
            """,
            "requirements-dev.txt": "-r requirements.txt\nlinter==1 # why\napp\n",
            "requirements.txt": "app==2\n",
        }
    )
    packages = Packages(
        ("locked==1", "pinned>1"), ("requirements-dev.txt", "requirements.txt"), groups=("dev",), projects=(".[test]",)
    )
    assert optional_names(project, packages) == {"only-tests", "pytest", "tool", "linter", "pinned"}
