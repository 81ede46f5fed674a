"""The command line as a person meets it: its own process, its words, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.contract.events import StepStarted
from agent.contract.outcome import Outcome
from app.clock import SystemClock
from app.settings import Settings
from app.store.store import open_store
from app.store.values import PullRequestRecord
from tests.app.cli import program
from tests.app.requests import RUN, SHA, run_of, taken

ROOT = Path(__file__).resolve().parents[3]


def selfheal(*argv: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    return program.run(argv, cwd, {**environment, "PYTHONPATH": str(ROOT), **variables})


def test_help_loads_nothing_that_heals_or_serves() -> None:
    program = (
        "import sys\n"
        "from app.cli.main import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    for command in ("fix", "serve", "worker", "dev", "attempts", "bench", "version"):
        assert command in done.stdout
    heavy = {"litellm", "langgraph", "githubkit", "sqlalchemy", "arq", "redis", "fastapi", "alembic", "pydantic", "sandbox"}
    assert not heavy & set(done.stderr.split())


def test_fix_begins_without_what_it_needs_later_or_never() -> None:
    """The rest is loaded while sandboxes open and tests run."""
    program = "import sys, app.cli.checkout.fix\nprint(*sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    loaded = set(done.stdout.split())
    never = {"fastapi", "sqlalchemy", "arq", "redis", "alembic", "githubkit", "structlog", "mlflow", "e2b"}
    later = {
        "langgraph",
        "langchain_core",
        "langsmith",
        "litellm",
        "httpx",
        "jinja2",
        "pygments",
        "agent.graph",
        "agent.ci.plan",
    }
    assert "agent.engine" in loaded
    assert not (never | later) & loaded


def test_the_version_is_that_of_the_package() -> None:
    done = subprocess.run([sys.executable, "-m", "app", "version"], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0
    assert done.stdout.startswith("selfheal ")


@pytest.mark.parametrize(
    ("argv", "variables", "said"),
    [
        (("fix", "/no/such/folder"), {}, "/no/such/folder does not exist; pass the folder of a checkout"),
        (("fix", __file__), {}, "is a file; pass the folder of its checkout"),
        (("fix", "--test", " ", "."), {}, "--test must be a command"),
        (("fix", "--no-such-option", "."), {}, "No such option"),
        (("fix", "--max-iterations", "0", "."), {}, "--max-iterations"),
        (("heel",), {}, "No such command"),
        (("fix", "."), {"SELFHEAL_PORT": "x"}, "selfheal: SELFHEAL_PORT should be a valid integer"),
        (("fix", "."), {"SELFHEAL_SANDBOX": "castle"}, "selfheal: SELFHEAL_SANDBOX should be 'auto'"),
        (("fix", "."), {"SELFHEAL_SANDBX": "local"}, "SELFHEAL_SANDBX is not a setting; did you mean SELFHEAL_SANDBOX?"),
        (("attempts", "list", "--limit", "0"), {}, "--limit"),
        (("serve",), {}, "selfheal: SELFHEAL_GITHUB_WEBHOOK_SECRET must be set"),
    ],
)
def test_wrong_use_is_told_and_ends_with_2(
    argv: tuple[str, ...], variables: Mapping[str, str], said: str, tmp_path: Path
) -> None:
    done = selfheal(*argv, cwd=tmp_path, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir()), "wrong use leaves nothing behind"


@pytest.mark.parametrize("command", [("attempts", "list"), ("attempts", "show", "x"), ("worker",)])
def test_a_database_that_cannot_be_opened_is_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no database at all, but a text of some length" * 20)
    (tmp_path / "file").chmod(0o600)
    done = selfheal(*command, SELFHEAL_DATA_DIR=str(tmp_path), SELFHEAL_DATABASE_URL=f"sqlite:///{tmp_path}/file")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"selfheal: the database {tmp_path}/file cannot be opened: ")


INSPECTING = (
    ("attempts", "list"),
    ("attempts", "list", "--json"),
    ("attempts", "show", "77"),
    ("attempts", "approve", "77"),
    ("attempts", "reject", "77"),
    ("attempts", "fork", "77", "--from-iteration", "1"),
    ("attempts", "calibration"),
    ("memory", "list"),
    ("memory", "forget", "7"),
)


@pytest.mark.parametrize("command", INSPECTING, ids=" ".join)
def test_who_only_looks_or_steers_makes_no_database(command: tuple[str, ...], tmp_path: Path) -> None:
    done = selfheal(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"selfheal: there is no Selfheal database at {tmp_path}/.selfheal/selfheal.db; ")
    assert "SELFHEAL_DATA_DIR" in line
    assert "SELFHEAL_DATABASE_URL" in line
    assert not list(tmp_path.iterdir())


async def test_an_empty_database_has_no_attempts(settings: Settings) -> None:
    async with open_store(settings, SystemClock()):
        pass
    data = {"SELFHEAL_DATA_DIR": str(settings.data_dir), "SELFHEAL_DATABASE_URL": settings.database}
    assert selfheal("attempts", "list", **data).stdout == "No attempts yet.\n"
    assert json.loads(selfheal("attempts", "list", "--json", **data).stdout) == []
    unknown = selfheal("attempts", "show", "77", **data)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr == "selfheal: '77' matches no attempt, or more than one; `selfheal attempts list` shows the ids\n"


@pytest.fixture
async def two_attempts(settings: Settings) -> tuple[str, str]:
    """One that was healed, and a later one that waits; ids."""
    async with open_store(settings, SystemClock()) as store:
        first = await taken(store, RUN)
        async with store.lease(first, "w1") as lease:
            await lease.record(StepStarted(text="Unpacking \x1b[31mthe\x1b[0m repository", step="unpack"))
            await lease.record_pull_request(PullRequestRecord(4, "selfheal/x", "https://example.org/pulls/4"))
            await lease.end(Outcome.HEALED, "It works.", "Review it.")
        return first, await taken(store, run_of("b" * 40, title="CI \x1b]0;gone\x07 / tests"))


def test_attempts_are_listed_newest_first(settings: Settings, two_attempts: tuple[str, str]) -> None:
    healed, waiting = two_attempts
    data = {"SELFHEAL_DATA_DIR": str(settings.data_dir), "SELFHEAL_DATABASE_URL": settings.database}
    listed = selfheal("attempts", "list", **data)
    assert listed.returncode == 0
    rows = listed.stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [waiting[:12], healed[:12]], "one line each, however narrow the terminal"
    assert "queued" in rows[0]
    for said in ("octo/calculator", SHA[:10], "main", "healed", "https://example.org/pulls/4"):
        assert said in rows[1]
    assert "\x1b" not in listed.stdout
    both = json.loads(selfheal("attempts", "list", "--json", **data).stdout)
    assert [(each["id"], each["outcome"]) for each in both] == [(waiting, None), (healed, "healed")]
    assert json.loads(selfheal("attempts", "list", "--json", "--limit", "1", **data).stdout) == both[:1]
    assert json.loads(selfheal("attempts", "list", "--json", "--repository", "octo/other", **data).stdout) == []


@pytest.mark.parametrize("database_url", [None])
async def test_one_long_name_does_not_make_every_row_wide(settings: Settings) -> None:
    async with open_store(settings, SystemClock()) as store:
        await taken(store, RUN)
        await taken(store, run_of("c" * 40, head_branch="b" * 240, title="t" * 240))
    data = {"SELFHEAL_DATA_DIR": str(settings.data_dir)}
    listed = selfheal("attempts", "list", **data).stdout
    assert max(len(row) for row in listed.splitlines()) < 260
    assert f"{'b' * 59}… " in listed
    assert {each["head_branch"] for each in json.loads(selfheal("attempts", "list", "--json", **data).stdout)} == {
        "main",
        "b" * 240,
    }


def test_an_attempt_is_shown_with_its_timeline(settings: Settings, two_attempts: tuple[str, str]) -> None:
    healed, _ = two_attempts
    data = {"SELFHEAL_DATA_DIR": str(settings.data_dir), "SELFHEAL_DATABASE_URL": settings.database}
    shown = selfheal("attempts", "show", healed[:8], **data)
    assert shown.returncode == 0
    for said in (healed, "healed", "It works.", "Review it.", "https://example.org/pulls/4", "Unpacking"):
        assert said in shown.stdout
    assert "\x1b" not in shown.stdout, "what others wrote does not steer the terminal"
    whole = json.loads(selfheal("attempts", "show", healed, "--json", **data).stdout)
    assert (whole["id"], whole["reason"]) == (healed, "It works.")
    assert [event["sequence"] for event in whole["timeline"]] == [1, 2]


def test_the_env_file_of_the_folder_is_read_by_the_service_and_never_by_fix(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SELFHEAL_SANDBOX=castle\nSELFHEAL_NO_SUCH=1\n")
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "readme.txt").write_text("no tests\n")
    for command in ("serve", "worker", "dev", "attempts list"):
        done = selfheal(*command.split(), cwd=tmp_path)
        assert (done.returncode, "SELFHEAL_NO_SUCH is not a setting" in done.stderr) == (2, True)
    done = selfheal("fix", "checkout", cwd=tmp_path, SELFHEAL_MODEL="none", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert "castle" not in done.stderr
    assert "SELFHEAL_NO_SUCH" not in done.stderr
    assert done.returncode == 1, "a folder without tests has nothing to heal"


@pytest.mark.long
def test_doctor_tells_scripts_each_check_and_ends_with_1_when_one_failed(tmp_path: Path) -> None:
    done = selfheal("doctor", "--json", cwd=tmp_path, SELFHEAL_MODEL="none")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], done.stderr) == (1, False, "")
    status = {(check["area"], check["name"]): check["status"] for check in told["checks"]}
    assert status["settings", "webhook secret"] == "warning"
    assert status["github", "credentials"] == "failed"
    assert status["model", "none"] == "ok"
    assert {check["area"] for check in told["checks"]} == {"settings", "database", "redis", "github", "model", "sandbox"}
    assert all(check["fix"] for check in told["checks"] if check["status"] == "failed")


def test_doctor_names_every_wrong_setting_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SELFHEAL_PORT=x\nSELFHEAL_SANDBX=local\nSELFHEEL_MODEL=none\n")
    done = selfheal("doctor", cwd=tmp_path)
    assert done.returncode == 2
    for said in ("SELFHEAL_PORT should be", "did you mean SELFHEAL_SANDBOX?", "did you mean SELFHEAL_MODEL?"):
        assert said in done.stdout
    found = json.loads(selfheal("doctor", "--json", cwd=tmp_path).stdout)
    assert [check["status"] for check in found["checks"]] == ["failed"] * 3
