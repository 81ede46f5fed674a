"""`selfheal fix` for real: its own process, the real sandbox, a checkout with a failing test."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.cli import program

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 120.0  # seconds
# A line wider than any terminal, Windows line ends, characters outside of ASCII, no newline at the end.
SOURCE = (
    "PLACE = 'Zürich'\r\n"
    f"WIDE = {'x' * 300!r}\r\n"
    "\r\n"
    "\r\n"
    "def in_stock(count, wanted):\r\n"
    "    # A full shelf may be emptied.\r\n"
    "    return wanted < count  # " + "wide " * 60 + "ü"
)
TESTS = """\
    from shelf import in_stock


    def test_less_than_there_is():
        assert in_stock(3, 2)


    def test_all_there_is():
        assert in_stock(3, 3)


    def test_more_than_there_is():
        assert not in_stock(3, 4)
    """


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `fix` keeps downloads and its open sandboxes."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "shelf.py").write_bytes(SOURCE.encode())
    (folder / "test_shelf.py").write_text(textwrap.dedent(TESTS))
    (folder / ".gitignore").write_text("secret.env\n")
    (folder / "secret.env").write_text("TOKEN=hunter2\n")
    (folder / "outside").symlink_to("/etc")
    (folder / "logo.png").write_bytes(bytes(range(256)))
    git(folder, "init", "-q")
    git(folder, "add", "shelf.py", "test_shelf.py", ".gitignore")
    git(folder, "commit", "-qm", "first")
    return folder


def git(folder: Path, *argv: str, **more: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *argv], cwd=folder, check=True, text=True, **more)


def start(cache: Path, checkout: Path, *options: str, python: tuple[str, ...] = ("-m", "app")) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *python, "fix", str(checkout), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(cache), cwd=cache,
    )  # fmt: skip


def environment(cache: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SELFHEAL_", "E2B_"))}
    return own | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT), "SELFHEAL_MODEL": "none", "LC_ALL": "C"}


def fix(cache: Path, checkout: Path, *options: str) -> tuple[int, bytes, str]:
    """Exit code, standard output, standard error."""
    done = program.run(("fix", str(checkout), *options), cache, environment(cache), PATIENCE)
    left_nothing(cache)
    return done.returncode, done.stdout.encode(), done.stderr


def left_nothing(cache: Path) -> None:
    """No sandbox, and no process that sees one."""
    assert not list((cache / "selfheal" / "open").glob("*"))
    until(lambda: not any(str(cache) in seen(table) for table in Path("/proc").glob("[0-9]*/mountinfo")), 10)


def seen(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""  # the process has just ended


def until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fingerprint(folder: Path) -> str:
    """Of every name, content, mode and time of change, `.git` too."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        what = path.lstat()
        digest.update(f"{path}:{what.st_mode}:{what.st_mtime_ns}".encode())
        digest.update(str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


@pytest.mark.long
def test_piped_it_prints_a_patch_that_git_applies_and_touches_nothing(cache: Path, checkout: Path) -> None:
    before = fingerprint(checkout)
    code, patch, said = fix(cache, checkout, "--test", "python -m pytest -q -x --maxfail=5")
    assert code == 0, said
    assert fingerprint(checkout) == before
    for word in ("Healed: ", "1 failed, 2 passed", "0 failed, 3 passed", "1 of 1 failed again", "Nothing was written"):
        assert word in said
    assert b"\x1b" not in patch + said.encode()
    subprocess.run(["git", "apply", "-"], cwd=checkout, input=patch, check=True)
    assert (checkout / "shelf.py").read_bytes() == SOURCE.replace("<", "<=").encode()


def test_applied_the_checkout_is_green_and_json_is_one_object(cache: Path, checkout: Path) -> None:
    code, out, said = fix(cache, checkout, "--apply", "--json")
    assert code == 0, said
    told = json.loads(out)
    assert (told["outcome"], told["applied"], told["problem"], told["files"]) == ("healed", True, None, ["shelf.py"])
    (check,) = told["evidence"]["checks"]
    assert (check["base_red"], check["with_red"], check["without_red"]) == (1, 0, 1)
    assert [each["result"] for each in told["log"]["iterations"]] == ["verified"]
    assert told["diagnosis"]["cause"]
    assert (checkout / "shelf.py").read_bytes() == SOURCE.replace("<", "<=").encode()
    subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=checkout, check=True, capture_output=True)
    git(checkout, "apply", "--reverse", "--check", "-", input=told["diff"])


@pytest.mark.long
def test_an_unsure_change_is_shown_and_not_written(cache: Path, checkout: Path) -> None:
    before = fingerprint(checkout)
    code, out, said = fix(cache, checkout, "--apply", "--json", "--min-confidence", "1")
    assert code == 1, said
    told = json.loads(out)
    assert (told["outcome"], told["applied"], told["diff"]) == ("gave_up", False, None)
    assert told["suspect"]["confidence"] < 1
    git(checkout, "apply", "--check", "-", input=told["suspect"]["diff"])
    assert fingerprint(checkout) == before


@pytest.mark.long
def test_people_see_an_unsure_change_and_how_to_apply_it(cache: Path, checkout: Path) -> None:
    code, patch, said = fix(cache, checkout, "--min-confidence", "1")
    assert (code, patch) == (1, b""), said
    assert "Not healed: Selfheal found a possible repair: all checks pass with it, but do not show that it is right." in said
    assert "Suspect: " in said
    least = re.search(r"--min-confidence (0\.\d+) --apply", said)
    assert least, said
    code, _, said = fix(cache, checkout, "--min-confidence", least[1], "--apply")
    assert code == 0, said


@pytest.mark.long
def test_without_bubblewrap_it_heals_in_a_plain_process_and_says_so(cache: Path, checkout: Path) -> None:
    code = "from sandbox.jail import bubblewrap; bubblewrap.BWRAP = '/nowhere/bwrap'; import app.__main__"
    with start(cache, checkout, python=("-c", code)) as process:
        patch, err = process.communicate(timeout=PATIENCE)
    said = err.decode()
    assert process.returncode == 0, said
    assert said.count("without isolation") == 1
    assert "sandbox process" in said
    git(checkout, "apply", "--check", "-", input=patch.decode())


@pytest.mark.long
def test_what_a_person_changed_meanwhile_is_not_overwritten(cache: Path, checkout: Path) -> None:
    with start(cache, checkout, "--apply") as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if b"Reproducing" in line)
        with (checkout / "shelf.py").open("a") as file:
            file.write("\nMINE = 1\n")
        mine = fingerprint(checkout)
        _, rest = process.communicate(timeout=PATIENCE)
    assert told
    assert process.returncode == 1
    assert "shelf.py changed during the repair, so nothing was written; run the command again" in rest.decode()
    assert fingerprint(checkout) == mine


@pytest.mark.long
def test_tests_that_pass_are_not_healed(cache: Path, checkout: Path) -> None:
    (checkout / "shelf.py").write_bytes(SOURCE.replace("<", "<=").encode())
    code, out, said = fix(cache, checkout)
    assert (code, out) == (1, b"")
    assert "No repair: No failure that this change caused was found here. (not_reproduced)" in said
    assert "Why: Nothing failed here: 3 results" in said
    assert "\nNext: " in said


def test_a_folder_without_tests_has_nothing_to_heal(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "readme.txt").write_text("no tests\n")
    code, out, _ = fix(cache, tmp_path / "plain", "--json")
    told = json.loads(out)
    assert (code, told["outcome"]) == (1, "nothing_failed")
    assert told["reason"]
    assert told["next_step"]


def test_a_broken_configuration_is_named_with_its_line(cache: Path, checkout: Path) -> None:
    (checkout / ".github").mkdir()
    (checkout / ".github/selfheal.yml").write_text("enabled: true\ntests: pytest\n")
    code, out, said = fix(cache, checkout)
    assert (code, out) == (1, b"")
    assert "Not healed: " in said
    assert "(refused)" in said
    assert ".github/selfheal.yml, line 2, `tests`: unknown key" in said


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_interrupted_it_ends_at_once_and_leaves_nothing(cache: Path, checkout: Path, number: signal.Signals) -> None:
    (checkout / "test_hangs.py").write_text("import time\n\n\ndef test_hangs():\n    time.sleep(600)\n")
    before = fingerprint(checkout)
    with start(cache, checkout) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if b"Reproducing" in line)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    left_nothing(cache)
    assert fingerprint(checkout) == before


WORKFLOW = """\
on: push
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - {name: Generate, run: 'echo "LIMIT = 3" > generated.py'}
      - {name: Tests, run: python -m unittest test_generated}
"""


@pytest.mark.long
def test_a_job_of_the_checkout_is_healed_with_the_steps_before_its_tests(cache: Path, checkout: Path) -> None:
    (checkout / ".github" / "workflows").mkdir(parents=True)
    (checkout / ".github" / "workflows" / "ci.yml").write_text(WORKFLOW)
    (checkout / "limit.py").write_text("import generated\n\n\ndef fits(count):\n    return count < generated.LIMIT\n")
    (checkout / "test_generated.py").write_text(
        "import unittest\nfrom limit import fits\n\n\nclass Tests(unittest.TestCase):\n"
        "    def test_edge(self):\n        self.assertTrue(fits(3))\n\n    def test_above(self):\n"
        "        self.assertFalse(fits(4))\n"
    )
    code, out, said = fix(cache, checkout, "--job", "tests", "--json", "--min-confidence", "0")
    assert code == 0, said
    assert json.loads(out)["files"] == ["limit.py"]
    code, _, said = fix(cache, checkout, "--job", "other")
    assert (code, "the jobs are: tests" in said) == (2, True)


@pytest.mark.long
def test_what_an_uncommitted_change_broke_is_shown_and_taken_back_only_on_request(cache: Path, checkout: Path) -> None:
    right = SOURCE.replace("<", "<=").encode()
    (checkout / "shelf.py").write_bytes(right)
    git(checkout, "commit", "-qam", "right")
    (checkout / "shelf.py").write_bytes(SOURCE.encode())
    code, out, said = fix(cache, checkout, "--json")
    assert code == 1, said
    reported = json.loads(out)
    assert reported["outcome"] == "needs_test_change"
    assert reported["culprit"]["good"].startswith("the last commit (")
    assert [place["path"] for place in reported["culprit"]["places"]] == ["shelf.py"]
    assert reported["diff"] is None
    git(checkout, "apply", "--reverse", "--check", "-", input=reported["culprit"]["diff"])
    code, _, said = fix(cache, checkout, "--allow-reversals", "--apply")
    assert code == 0, said
    assert (checkout / "shelf.py").read_bytes() == right


def test_an_unknown_good_commit_is_refused_at_once(cache: Path, checkout: Path) -> None:
    code, _, said = fix(cache, checkout, "--good", "nowhere")
    assert code == 2
    assert "--good 'nowhere' is not a commit of this checkout" in said
