"""Which locks of crates and Go modules tests need: by the language of each test, and by where cargo and go look for them."""

from __future__ import annotations

import pytest

from agent.ci.project.detection import Project
from agent.ci.project.locked_sources import locked_sources
from agent.contract.verdicts import Check

VENDORED = '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n'
WORKSPACE = {"rust/Cargo.toml": '[workspace]\nmembers = ["a"]\n', "rust/a/Cargo.toml": ""}


@pytest.mark.parametrize(
    ("files", "steps", "crates", "go_modules"),
    [
        ({**WORKSPACE, "rust/Cargo.lock": ""}, (("cargo test", "rust/a"),), ("rust",), ()),
        (WORKSPACE, (("cargo test", "rust/a"),), ("rust",), ()),
        ({"Cargo.toml": "", "rust/a/Cargo.toml": ""}, (("cargo test", "rust/a"),), ("rust/a",), ()),
        ({**WORKSPACE, "Cargo.lock": "", ".cargo/config": VENDORED}, (("cargo test", "rust/a"),), (), ()),
        ({"go/go.mod": "", "go/go.sum": "", "go/a/a.go": ""}, (("go test ./...", "go/a"),), (), ("go",)),
        ({"go.mod": "", "go.sum": "", "go/go.mod": "", "go/go.sum": "", "vendor/modules.txt": ""},
            (("go test ./...", "go"),), (), ("go",)),
        ({"go.mod": "", "go.sum": ""}, (("pytest", "."), ("go test ./...", ".")), (), (".",)),
        ({"Cargo.toml": "", "Cargo.lock": ""}, (("pytest", "."), ("cargo test", ".")), (".",), ()),
        ({"Cargo.toml": "", "Cargo.lock": ""}, (("maturin develop && cargo build && pytest", "."),), (), ()),
    ],
)  # fmt: skip
def test_the_locks_of_each_test_s_language_are_those_that_it_reads(
    files: dict[str, str],
    steps: tuple[tuple[str, str], ...],
    crates: tuple[str, ...],
    go_modules: tuple[str, ...],
) -> None:
    checks = [Check("tests", command, "pytest" if "pytest" in command else "exit", cwd=cwd) for command, cwd in steps]
    found, notes = locked_sources(checks, Project.of_texts(files))
    assert (found.crates, found.go_modules, notes) == (crates, go_modules, ())


def test_a_configuration_with_a_number_that_python_refuses_counts_as_invalid() -> None:
    project = Project.of_texts({"Cargo.toml": "", "Cargo.lock": "", ".cargo/config.toml": f"a = {'1' * 5000}"})
    found, _ = locked_sources([Check("tests", "cargo test", "exit")], project)
    assert found.crates == (".",)
