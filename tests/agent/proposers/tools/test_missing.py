"""What Python, linters and type checkers say is missing."""

import pytest

from agent.contract.verdicts import Failure, Frame, VerdictId
from agent.proposers.tools.missing import Missing, read_missing

AT = (Frame("test_a.py", 1, "test"), Frame("a.py", 3, "f"))


def failure(message: str, details: str = "", frames: tuple[Frame, ...] = AT) -> Failure:
    return Failure(VerdictId(message), message, details, frames)


@pytest.mark.parametrize(
    ("said", "kind", "name", "module"),
    [
        ("NameError: name 'json' is not defined. Did you forget to import 'json'?", "name", "json", ""),
        ("NameError: name 'Path' is not defined", "name", "Path", ""),
        ("F821 Undefined name `os`", "name", "os", ""),
        ("F821 undefined name 'os'", "name", "os", ""),
        ("E0602: Undefined variable 'os' (undefined-variable)", "name", "os", ""),
        ('error: Name "os" is not defined  [name-defined]', "name", "os", ""),
        ('error: "os" is not defined (reportUndefinedVariable)', "name", "os", ""),
        ("ImportError: cannot import name 'X' from 'a.b' (/w/a/b.py)", "import", "X", "a.b"),
        ('error: Module "a.b" has no attribute "X"  [attr-defined]', "import", "X", "a.b"),
        ("AttributeError: module 'collections' has no attribute 'Mapping'", "attribute", "Mapping", "collections"),
        ("ModuleNotFoundError: No module named 'a.b'; 'a' is not a package", "module", "", "a.b"),
        ('error: Cannot find implementation or library stub for module named "yaml"', "module", "", "yaml"),
    ],
)
def test_what_is_missing_is_read_from_the_words(said: str, kind: str, name: str, module: str) -> None:
    assert read_missing([failure(said)]) == (Missing(kind, name, module, "a.py", 3),)  # type: ignore[arg-type]
    assert read_missing([failure("an error", details=f"E   {said}")]) == read_missing([failure(said)])


def test_a_circular_import_is_distinguished_from_a_moved_name() -> None:
    said = "ImportError: cannot import name 'X' from partially initialized module 'a' (most likely due to a circular import)"
    (found,) = read_missing([failure(said)])
    assert (found.name, found.module, found.circular) == ("X", "a", True)


def test_the_same_thing_is_missing_once_a_file_and_other_failures_say_nothing() -> None:
    said = "NameError: name 'os' is not defined"
    other = failure(said, frames=(Frame("b.py", 1),))
    found = read_missing([failure(said), failure(said), other, failure("AssertionError: 1 == 2"), failure(said, frames=())])
    assert [one.path for one in found] == ["a.py", "b.py"]


def test_what_comes_out_at_last_counts() -> None:
    details = "ModuleNotFoundError: No module named 'tomllib'\nDuring handling\nModuleNotFoundError: No module named 'tomli'"
    (found,) = read_missing([failure("ModuleNotFoundError: No module named 'tomli'", details)])
    assert found.module == "tomli"
