"""`selfheal verify` for real: a commit that repairs, and others that claim to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.cli import program
from tests.app.cli.checkout import test_fix
from tests.app.cli.checkout.test_fix import PATIENCE, environment, fingerprint, git

cache, checkout = test_fix.cache, test_fix.checkout  # fixtures


def verify(cache: Path, what: str | Path, *options: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = program.run(("verify", str(what), *options), cache, environment(cache), PATIENCE)
    return done.returncode, done.stdout, done.stderr


def committed(checkout: Path, old: str, new: str, file: str = "shelf.py") -> None:
    content = (checkout / file).read_bytes()
    assert old.encode() in content
    (checkout / file).write_bytes(content.replace(old.encode(), new.encode()))
    git(checkout, "commit", "-qam", "Count the last one too")


@pytest.mark.long
def test_a_repair_is_verified_and_the_checkout_is_not_touched(cache: Path, checkout: Path) -> None:
    committed(checkout, "wanted < count", "wanted <= count")
    before = fingerprint(checkout)
    code, out, said = verify(cache, checkout, "--json")
    assert code == 0, said
    told = json.loads(out)
    assert (told["verified"], told["outcome"], told["receipt"], told["differences"]) == (True, "verified", None, [])
    (check,) = told["evidence"]["checks"]
    assert (check["base_red"], check["with_red"], check["without_red"]) == (1, 0, 1)
    assert "+    return wanted <= count" in told["diff"]
    assert fingerprint(checkout) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "file", "why"),
    [
        ("wanted < count", "wanted == count", "shelf.py", "fail"),
        ("assert in_stock(3, 3)", "assert True", "test_shelf.py", "test"),
    ],
)
def test_what_repairs_nothing_or_edits_the_test_is_not_verified(
    cache: Path,
    checkout: Path,
    old: str,
    new: str,
    file: str,
    why: str,
) -> None:
    committed(checkout, old, new, file)
    code, out, said = verify(cache, checkout)
    assert code == 1, said
    assert out.strip().startswith("Not verified: ")
    assert why in out


def test_what_is_no_repair_is_named(cache: Path, checkout: Path, tmp_path: Path) -> None:
    for what, said in (
        (checkout, "has no parent, so it is no repair"),
        ("https://github.com/octo/calc", "is not the address of a pull request, such as"),
        (tmp_path / "nowhere", "does not exist; pass the folder of a checkout"),
    ):
        code, _, complained = verify(cache, what)
        assert code == 2
        assert said in complained
