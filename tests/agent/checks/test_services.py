"""Servers beside a check: real PostgreSQL, MySQL (MariaDB) and Redis in real sandboxes, and the clients that projects use."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from agent.checks.runner import Runner
from agent.checks.services import available_services
from agent.contract.verdicts import Check, CheckRun, Service, Step, Verdict
from sandbox.base import InstallFailed, Packages, Sandbox, SandboxUnavailable
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from tests.agent.workbench import sandbox_with

pytestmark = pytest.mark.asyncio(loop_scope="session")

PASSWORD = {"POSTGRES_PASSWORD": "it's \\ secret", "POSTGRES_USER": "app", "POSTGRES_DB": 'the "db"'}
POSTGRES = Service("postgresql", 5432, "postgres", "postgres:16", PASSWORD)
REDIS = Service("redis", 6379, "redis", "redis:7", {"REDIS_PASSWORD": "hidden"})
MYSQL = Service("mysql", 3306, "db", "mariadb:11", {"MYSQL_ROOT_PASSWORD": "it's \\ root", "MYSQL_DATABASE": "app",
                                                    "MYSQL_USER": "me", "MYSQL_PASSWORD": "mine"})  # fmt: skip
OPEN = replace(POSTGRES, env={"POSTGRES_HOST_AUTH_METHOD": "trust"})
EXIT = Check("step", "", "exit")
STORE = """
import psycopg, redis

def store(connection, cache, name):
    connection.execute("CREATE TABLE names (name text)")
    connection.execute("INSERT INTO names VALUES (%s)", [name])
    cache.set("last", name)

def test_store():
    with psycopg.connect(host="localhost", user="app", password="it's \\\\ secret", dbname='the "db"') as connection:
        cache = redis.Redis(password="hidden")
        store(connection, cache, "Ada")
        assert connection.execute("SELECT name FROM names").fetchall() == [("Ada",)]
        assert cache.get("last") == b"Ada"
"""


def needs(*programs: str) -> pytest.MarkDecorator:
    folders = ":".join([os.environ["PATH"], "/usr/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
    absent = [program for program in programs if not shutil.which(program, path=folders)]
    return pytest.mark.skipif(bool(absent), reason=f"needs {', '.join(absent)}: see deploy/setup.sh")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """With pytest and the clients."""
    folder = tmp_path_factory.mktemp("sandboxes")
    sandboxes = LocalSandboxes(folder / "open", PackageStore(folder / "wheels", await configured()))
    async with AsyncExitStack() as closing:
        try:
            opened = await closing.enter_async_context(sandboxes.open("services"))
            await opened.install(Packages(requirements=("pytest", "psycopg[binary]", "redis", "pymysql")))
        except (SandboxUnavailable, InstallFailed) as missing:
            pytest.skip(f"needs bubblewrap and a package index: {missing}")
        yield opened


async def run(sandbox: Sandbox, files: Mapping[str, str], check: Check, timeout: float = 60.0) -> CheckRun:
    async with sandbox.candidate() as workspace:
        for path, text in files.items():
            await workspace.write(path, text.encode())
        return await Runner(sandbox).run(workspace, check, timeout=timeout)


def python(script: str, *services: Service) -> Check:
    return replace(EXIT, command=script, shell="python", services=services)


TESTS = Check("tests", "python -m pytest -q", "pytest", services=(POSTGRES, REDIS))


@needs("initdb", "redis-server")
@pytest.mark.long
async def test_tests_pass_and_fail_by_what_they_find_in_postgresql_and_redis(sandbox: Sandbox) -> None:
    passed = await run(sandbox, {"test_store.py": STORE}, TESTS)
    assert list(passed.verdicts.values()) == [Verdict.PASSED], passed.output
    broken = STORE.replace('cache.set("last", name)', 'cache.set("last", name + "!")')
    failed = await run(sandbox, {"test_store.py": broken}, TESTS)
    assert list(failed.verdicts.values()) == [Verdict.FAILED], failed.output
    alone = await run(sandbox, {"test_store.py": STORE}, replace(TESTS, services=()))
    assert list(alone.verdicts.values()) == [Verdict.FAILED], "without its servers"
    assert "OperationalError" in alone.failures[0].message


@pytest.mark.long
@needs("initdb", "redis-server")
async def test_candidates_side_by_side_have_servers_of_their_own_on_the_same_port(sandbox: Sandbox) -> None:
    runs = await asyncio.gather(*(run(sandbox, {"test_store.py": STORE}, TESTS) for _ in range(2)))
    assert [list(ran.verdicts.values()) for ran in runs] == [[Verdict.PASSED]] * 2, [ran.output for ran in runs]


@pytest.mark.long
@needs("initdb")
async def test_a_wrong_password_is_refused(sandbox: Sandbox) -> None:
    script = "import psycopg; psycopg.connect(host='127.0.0.1', user='app', password='wrong', dbname='the \"db\"')"
    ran = await run(sandbox, {}, python(script, POSTGRES))
    assert (ran.exit_code, "password authentication failed" in ran.output) == (1, True), ran.output


@needs("redis-server")
@pytest.mark.long
async def test_redis_wants_its_password(sandbox: Sandbox) -> None:
    ran = await run(sandbox, {}, python("import redis; redis.Redis().ping()", REDIS))
    assert (ran.exit_code, "AuthenticationError" in ran.output) == (1, True), ran.output
    assert (await run(sandbox, {}, python("import redis; redis.Redis().ping()", replace(REDIS, env={})))).exit_code == 0


@needs("mariadbd")
async def test_mysql_has_its_database_and_its_users(sandbox: Sandbox) -> None:
    script = """
import pymysql
mine = pymysql.connect(host="127.0.0.1", user="me", password="mine", database="app")
mine.cursor().execute("CREATE TABLE t (x text)")
root = pymysql.connect(host="127.0.0.1", user="root", password="it's \\\\ root")
root.cursor().execute("CREATE DATABASE other")
for password in ("", "wrong"):
    try:
        pymysql.connect(host="127.0.0.1", user="root", password=password)
    except pymysql.err.OperationalError as error:
        assert error.args[0] == 1045, error
    else:
        raise SystemExit("no password was wanted")
"""
    ran = await run(sandbox, {}, python(script, MYSQL))
    assert ran.exit_code == 0, ran.output


@needs("initdb")
async def test_a_step_before_finds_the_servers(sandbox: Sandbox) -> None:
    before = python(
        "import psycopg; psycopg.connect('host=localhost user=postgres', autocommit=True).execute('CREATE TABLE t()')"
    )
    script = "import psycopg; print(psycopg.connect('host=localhost user=postgres').execute('SELECT * FROM t').fetchall())"
    async with sandbox.candidate() as workspace:
        check = replace(python(script, OPEN), before=(Step("Migrate", before.command, "python"),))
        ran = await Runner(sandbox).run(workspace, check)
    assert (ran.exit_code, ran.output) == (0, "[]")


@needs("redis-server")
async def test_in_a_container_s_job_a_server_is_reached_by_its_name(sandbox: Sandbox) -> None:
    named = replace(REDIS, name="cache", env={}, host="cache")
    ran = await run(sandbox, {}, python("import redis; redis.Redis(host='cache').ping()", named))
    assert ran.exit_code == 0, ran.output
    other = await run(sandbox, {}, python("import socket; socket.gethostbyname('cache')", REDIS))
    assert (other.exit_code, "gaierror" in other.output) == (1, True), "where the job has no container it is not known"


@needs("redis-server")
async def test_a_name_that_is_none_leads_nowhere(sandbox: Sandbox) -> None:
    hostile = replace(REDIS, env={}, host="a\n10.0.0.1 localhost")
    ran = await run(sandbox, {}, replace(EXIT, command="cat /etc/hosts", services=(hostile,)))
    assert (ran.exit_code, "10.0.0.1" in ran.output, "127.0.0.1 localhost" in ran.output) == (0, False, True), ran.output


@needs("initdb")
async def test_what_tests_make_a_server_do_knows_nothing_of_who_observes_them(sandbox: Sandbox) -> None:
    script = """
import psycopg
connection = psycopg.connect("host=localhost user=postgres")
connection.execute("CREATE TEMP TABLE said (line text)")
connection.execute("COPY said FROM PROGRAM 'env; ls -l /proc/$PPID/fd; ls -l /proc/self/fd'")
print("\\n".join(line for line, in connection.execute("SELECT line FROM said")))
"""
    ran = await run(sandbox, {}, python(script, OPEN))
    assert (ran.exit_code, "LC_CTYPE=" in ran.output, "pipe:" in ran.output) == (0, True, True), ran.output
    assert not [word for word in ("SELFHEAL_GUEST", "selfheal-", "GITHUB_") if word in ran.output]


@needs("initdb")
@pytest.mark.parametrize(
    ("service", "why"),
    [
        (replace(POSTGRES, env={}), "It requires POSTGRES_PASSWORD"),
        (replace(POSTGRES, env={**PASSWORD, "POSTGRES_INITDB_ARGS": "--no-such"}), "initdb exited with code 1."),
        (replace(POSTGRES, env={**PASSWORD, "POSTGRES_DB": "a\nb"}), "The value of POSTGRES_DB contains control characters."),
        (replace(POSTGRES, env={**PASSWORD, "POSTGRES_HOST_AUTH_METHOD": "nonsense"}), "initdb exited with code 1."),
    ],
)
async def test_a_server_that_cannot_start_is_what_stopped_the_run(sandbox: Sandbox, service: Service, why: str) -> None:
    ran = await run(sandbox, {}, replace(EXIT, command="true", services=(service,)))
    assert (ran.ending, ran.stopped_at, ran.verdicts) == ("crashed", "service postgres", {})
    assert f'The service "postgres" could not be started: {why}' in ran.output


@needs("initdb")
async def test_the_log_of_a_server_that_failed_is_told(sandbox: Sandbox) -> None:
    wrong = replace(POSTGRES, env={**PASSWORD, "POSTGRES_INITDB_ARGS": "--locale=xx_YY"})
    ran = await run(sandbox, {}, replace(EXIT, command="true", services=(wrong,)))
    assert 'invalid locale name "xx_YY"' in ran.output


@needs("redis-server")
async def test_two_servers_on_one_port_are_told(sandbox: Sandbox) -> None:
    ran = await run(sandbox, {}, replace(EXIT, command="true", services=(REDIS, replace(REDIS, name="other"))))
    assert (ran.stopped_at, "Port 6379 is in use" in ran.output) == ("service other", True)


async def test_what_is_missing_is_told_before_anything_runs(sandbox: Sandbox) -> None:
    runner = Runner(sandbox)
    async with sandbox.candidate() as workspace:
        await workspace.write("services.py", b"raise SystemExit('the repository was asked')")
        search = Service("elasticsearch", 9200, "search", "elasticsearch:8")  # type: ignore[arg-type]
        told = await available_services(runner, workspace, (search,))
        assert told.sentence == (
            "The job needs services that the sandbox does not have: search (elasticsearch:8). "
            "There is no elasticsearch in the sandbox."
        )
        assert (await available_services(runner, workspace, ())).sentence == ""


@needs("initdb", "redis-server")
async def test_versions_are_told(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        told = await available_services(Runner(sandbox), workspace, (POSTGRES, REDIS))
    assert told.missing == ()
    postgres, redis = told.notes
    assert re.fullmatch(r"PostgreSQL [\d.]+ instead of postgres:16", postgres)
    assert re.fullmatch(r"(Redis|Valkey) [\d.]+ instead of redis:7", redis)


@needs("initdb", "redis-server")
@pytest.mark.long
async def test_a_plain_process_has_servers_too_and_leaves_none(tmp_path: Path) -> None:
    ports = (24_391, 24_392)
    services = (replace(OPEN, port=ports[0]), replace(REDIS, port=ports[1], env={}))
    async with sandbox_with(tmp_path, {}) as sandbox:
        script = f"""
import socket
for port in {ports}:
    socket.create_connection(("127.0.0.1", port), 5)
print("both")
"""
        ran = await run(sandbox, {}, python(script, *services))
        assert (ran.exit_code, ran.output) == (0, "both"), ran.output
        late = await run(sandbox, {}, replace(EXIT, command="sleep 60", services=services), timeout=8.0)
        assert (late.ending, late.stopped_at) == ("timeout", "")
    assert not [line for line in listed().splitlines() if any(str(port) in line for port in ports)]


async def test_a_server_that_never_answers_ends_with_the_time_of_its_check(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:  # which other users may enter, unlike pytest's
        programs = Path(folder)
        programs.chmod(0o755)
        silent = '#!/bin/sh\nif [ "$1" = --version ]; then echo Redis server v=7.0.0; else exec sleep 61.5; fi\n'
        started = f'#!/bin/sh\nPATH={programs}:$PATH exec {sys.executable} "$@"\n'
        for name, script in (("redis-server", silent), ("python", started)):
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        async with sandbox_with(tmp_path, {}) as sandbox:
            sandbox.python = str(programs / "python")  # type: ignore[attr-defined]
            hanging = replace(EXIT, command="true", services=(replace(REDIS, port=24_393),))
            ran = await run(sandbox, {}, hanging, timeout=1.5)
    assert (ran.ending, ran.stopped_at) == ("timeout", "service redis"), ran.output
    assert "It did not answer in time." in ran.output
    assert "sleep 61.5" not in listed()


def listed() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
