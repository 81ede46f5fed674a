"""What vitest, jest and mocha are seen to do: the real ones, from the registry, in the real sandbox."""

import json
import shutil
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from agent.checks.runner import Runner
from agent.contract.verdicts import Check, CheckRun, Verdict
from sandbox.base import InstallFailed, Packages, Sandbox, SandboxUnavailable
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from tests.sandbox.conftest import tarball

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm"),
]
PASSED, FAILED, ERROR, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.SKIPPED
RunTests = Callable[[Mapping[str, str], str], Awaitable[CheckRun]]
MANIFEST = {"name": "runners", "version": "1.0.0", "devDependencies": {"vitest": "^2", "jest": "^29", "mocha": "^11"}}
CALC = "exports.add = (a, b) => {\n  return a - b\n}\n"
TESTS = textwrap.dedent("""
    const { add } = require('../calc.js')
    const assert = require('assert')
    describe('add', () => {
      it('nothing', () => { assert.strictEqual(add(1, 0), 1) })
      it('wrong ü', () => { assert.strictEqual(add(1, 2), 3) })
      it.skip('left out', () => {})
      it('throws', () => { null.x })
    })
""").lstrip()
FILE = "tests/calc.test.js"
EXPECTED = {
    f"{FILE}::add > nothing": PASSED,
    f"{FILE}::add > wrong ü": FAILED,
    f"{FILE}::add > left out": SKIPPED,
    f"{FILE}::add > throws": FAILED,
}
COMMANDS = {"vitest": "npx vitest run --globals", "jest": "npx jest", "mocha": "npx mocha tests"}
every_runner = pytest.mark.parametrize("runner", list(COMMANDS))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    folder = tmp_path_factory.mktemp("node")
    sandboxes = LocalSandboxes(folder / "open", PackageStore(folder / "cache", await configured()))
    async with AsyncExitStack() as closing:
        try:
            opened = await closing.enter_async_context(sandboxes.open("node"))
            await opened.unpack(tarball({"package.json": json.dumps(MANIFEST).encode()}))
            await opened.install(Packages(node=(".",)))
        except (SandboxUnavailable, InstallFailed) as missing:
            pytest.skip(f"needs bubblewrap and a package registry: {missing}")
        yield opened


@pytest.fixture
def run_tests(sandbox: Sandbox) -> RunTests:
    async def run(files: Mapping[str, str], command: str) -> CheckRun:
        async with sandbox.candidate() as workspace:
            for name, text in files.items():
                await workspace.write(name, text.encode())
            return await Runner(sandbox).run(workspace, Check("tests", command, "javascript", env={"CI": "true"}, timeout=60))

    return run


@every_runner
async def test_each_kind_of_verdict_is_told(run_tests: RunTests, runner: str) -> None:
    run = await run_tests({"calc.js": CALC, FILE: TESTS}, COMMANDS[runner])
    assert run.verdicts == EXPECTED, run.output
    assert (run.ending, run.told_all, run.exit_code != 0) == ("finished", True, True)
    wrong = next(one for one in run.failures if one.id.endswith("wrong ü"))
    assert "strict" in wrong.message or "AssertionError" in wrong.message
    assert (FILE, 5) in {(frame.path, frame.line) for frame in wrong.frames}


@every_runner
async def test_green_is_told_as_green(run_tests: RunTests, runner: str) -> None:
    run = await run_tests({"calc.js": CALC.replace("-", "+"), FILE: TESTS.replace("null.x", "")}, COMMANDS[runner])
    assert (run.exit_code, run.red, len(run.green)) == (0, frozenset(), 3), run.output


@every_runner
async def test_a_file_that_cannot_be_loaded_is_told_or_fails_the_command(run_tests: RunTests, runner: str) -> None:
    run = await run_tests({"calc.js": "throw new Error('no calc')\n", FILE: TESTS}, COMMANDS[runner])
    # mocha loads all files before it has a reporter.
    assert run.verdicts == {("exit" if runner == "mocha" else FILE): ERROR}, run.output
    assert "no calc" in run.failures[0].message + run.failures[0].details


@every_runner
async def test_leaving_with_success_is_never_green(run_tests: RunTests, runner: str) -> None:
    run = await run_tests({"calc.js": "process.exit(0)\n", FILE: TESTS}, COMMANDS[runner])
    assert not run.green, run.output


@every_runner
async def test_a_package_script_leads_to_the_runner(run_tests: RunTests, runner: str) -> None:
    manifest = json.dumps(MANIFEST | {"scripts": {"test": COMMANDS[runner].removeprefix("npx ")}})
    run = await run_tests({"package.json": manifest, "calc.js": CALC, FILE: TESTS}, "npm test")
    assert run.verdicts == EXPECTED, run.output


async def test_tests_in_typescript_are_told_where_their_runner_understands_it(run_tests: RunTests) -> None:
    test = (
        "import { add } from '../calc'\nimport { expect, test } from 'vitest'\ntest('sum', () => expect(add(1, 2)).toBe(3))\n"
    )
    calc = "export function add(a: number, b: number): number {\n  return a - b\n}\n"
    run = await run_tests({"calc.ts": calc, "tests/calc.test.ts": test}, "npx vitest run")
    assert run.verdicts == {"tests/calc.test.ts::sum": FAILED}, run.output
    assert run.failures[0].message == "AssertionError: expected -1 to be 3 // Object.is equality"


async def test_reporters_of_the_command_itself_stay(run_tests: RunTests) -> None:
    run = await run_tests({"calc.js": CALC, FILE: TESTS}, "npx vitest run --globals --reporter=tap-flat")
    assert run.verdicts == EXPECTED
    assert "1..4" in run.output


SPEAKS_FIRST = textwrap.dedent("""
    const net = require('net'), fs = require('fs')
    const read = (pid) => fs.readFileSync(`/proc/${pid}/environ`, 'latin1')
    const environment = read('self') + (process.env.SELFHEAL_GUEST ? '' : read(process.ppid))
    const folder = /SELFHEAL_GUEST=([^\\0]*)/.exec(environment)[1]
    const line = (kind, more) => JSON.stringify({ kind, key: 'k', ...more }) + '\\n'
    const verdict = { id: 'tests/calc.test.js::add > nothing', verdict: 'passed', seconds: 0, failure: null }
    const said = line('hello') + line('ready') + line('verdict', verdict) + line('end', { marks: [] }) + line('bye')
    fs.writeSync(net.connect(`${folder}/channel`)._handle.fd, said)
    process.exit(0)
""")


@every_runner
async def test_code_that_is_loaded_before_there_is_a_reporter_is_not_believed(run_tests: RunTests, runner: str) -> None:
    run = await run_tests({"calc.js": SPEAKS_FIRST, FILE: TESTS}, COMMANDS[runner])
    assert not run.green, run.output


async def test_leaving_with_success_while_files_are_loaded_is_a_crash(run_tests: RunTests) -> None:
    run = await run_tests({"calc.js": "process.exit(0)\n", FILE: TESTS}, COMMANDS["mocha"])
    assert run.ending == "crashed"


@pytest.mark.parametrize("options", ["--expose-gc tests", "--stack-trace-limit=20 tests", "-n expose-gc tests"])
async def test_mocha_is_observed_in_the_process_that_it_starts_for_options_of_node(run_tests: RunTests, options: str) -> None:
    run = await run_tests({"calc.js": CALC, FILE: TESTS}, f"npx mocha {options}")
    assert run.verdicts == EXPECTED, run.output


async def test_a_runner_that_is_asked_for_no_tests_is_no_crash(run_tests: RunTests) -> None:
    run = await run_tests({"calc.js": CALC, FILE: TESTS}, "npx jest --clearCache && npx jest")
    assert (run.ending, run.verdicts) == ("finished", EXPECTED), run.output


@pytest.mark.parametrize("version", ["22", "24"])
async def test_node_s_own_runner_is_observed_in_newer_versions(tmp_path: Path, version: str) -> None:
    manifest = {"name": "newer", "version": "1.0.0", "scripts": {"test": "node --test"}}
    body = f"if (!process.version.startsWith('v{version}.')) throw 1"
    test = f"const {{ test }} = require('node:test')\ntest('newer', () => {{ {body} }})\n"
    sandboxes = LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "cache", await configured()))
    try:
        async with sandboxes.open("newer") as sandbox:
            files = {"package.json": json.dumps(manifest), "tests/a.test.js": test}
            await sandbox.unpack(tarball({name: text.encode() for name, text in files.items()}))
            installed = await sandbox.install(Packages(node=(".",), node_version=version))
            if installed.notes:
                pytest.skip(installed.notes[0])
            async with sandbox.candidate() as workspace:
                run = await Runner(sandbox).run(workspace, Check("tests", "npm test", "javascript"))
    except (SandboxUnavailable, InstallFailed) as missing:
        pytest.skip(f"needs bubblewrap and a package registry: {missing}")
    assert run.verdicts == {"tests/a.test.js::newer": PASSED}, run.output
