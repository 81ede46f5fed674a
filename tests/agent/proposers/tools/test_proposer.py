"""The whole rung on tiny repositories: real guest, real tools, real processes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agent.checks.oracle import oracle_of
from agent.checks.runner import Runner
from agent.contract.events import AnyEvent
from agent.contract.outcome import Repair
from agent.contract.task import Policy
from agent.contract.verdicts import Check
from agent.edits.changes import digest
from agent.guard.rules import refusal
from agent.proposer import Proposal, Situation
from agent.proposers.tools.proposer import ToolsProposer
from sandbox.base import Sandbox
from tests.agent.workbench import PYTEST, Bench, sandbox_with

Ask = Callable[..., Awaitable[tuple[Proposal, Situation]]]
LINT = Check("lint", "ruff check .", "findings", timeout=30)
FORMAT = Check("format", "ruff format --check .", "findings", timeout=30)
UNUSED = "import os\nimport sys\n\nprint(sys.argv)\n"


async def situation(sandbox: Sandbox, checks: tuple[Check, ...], policy: Policy = Policy()) -> Situation:
    runner = Runner(sandbox)

    async def emit(event: AnyEvent) -> None:
        pass

    runs = []
    for check in checks:
        async with sandbox.candidate() as workspace:
            runs.append(await runner.run(workspace, check))
    return Situation(sandbox, runner, oracle_of(checks, [tuple(runs)]), tuple(runs), (), policy, emit, 60.0)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Ask]:
    async with AsyncExitStack() as closing:

        async def run(files: Mapping[str, str], *checks: Check, policy: Policy = Policy()) -> tuple[Proposal, Situation]:
            sandbox = await closing.enter_async_context(sandbox_with(tmp_path, files))
            case = await situation(sandbox, checks, policy)
            proposal = await ToolsProposer().propose(case)
            for path, text in files.items():
                assert await sandbox.base.read(path) == text.encode(), "the base is untouched"
            return proposal, case

        yield run


def afters(proposal: Proposal) -> list[dict[str, str | None]]:
    return [{edit.path: edit.after for edit in candidate.edits} for candidate in proposal.candidates]


async def test_a_linter_mends_what_it_finds(ask: Ask) -> None:
    proposal, case = await ask({"a.py": UNUSED, "b.py": "x=1\n"}, LINT)
    assert afters(proposal) == [{"a.py": "import sys\n\nprint(sys.argv)\n"}]
    assert proposal.candidates[0].title == "`ruff check --fix .` in a.py"
    assert proposal.plausible == 1
    again = await ToolsProposer().propose(replace(case, tried=frozenset(digest(c.edits) for c in proposal.candidates)))
    assert again.candidates == ()


async def test_what_a_tool_does_not_vouch_for_is_not_done(ask: Ask) -> None:
    unused_variable = "import os\n\n\ndef f():\n    x = 1\n    return 2\n"
    proposal, _ = await ask({"a.py": unused_variable}, LINT)
    assert proposal.candidates == ()
    assert "fixes only some findings; 1 remain" in proposal.note


async def test_what_the_tool_cannot_mend_is_said(ask: Ask) -> None:
    proposal, _ = await ask({"a.py": "import os\n\nassert (1, 'always')\n"}, LINT)
    assert proposal.candidates == ()
    assert "fixes only some findings; 1 remain" in proposal.note


async def test_all_tools_of_all_red_checks_work_together(ask: Ask) -> None:
    files = {"a.py": "import os\nx  =  1\n", "test_b.py": "def test_b( ):\n    assert True\n"}
    proposal, case = await ask(files, LINT, FORMAT)
    assert afters(proposal) == [{"a.py": "x = 1\n", "test_b.py": "def test_b():\n    assert True\n"}]
    assert refusal(proposal.candidates[0], Policy(), case.oracle) is None, "a test may be formatted"


async def test_a_tool_that_changes_more_than_has_findings_is_cut(ask: Ask) -> None:
    command = "ruff format --check b.py > /dev/null || true\nruff format --check a.py"
    proposal, _ = await ask({"a.py": "x  =  1\n", "b.py": "y  =  1\n"}, Check("lint", command, "findings"))
    assert afters(proposal) == [{"a.py": "x = 1\n"}]


async def test_a_tool_that_is_not_installed_is_said_to_be_missing(ask: Ask) -> None:
    proposal, _ = await ask({"a.py": "x=1\n"}, Check("lint", "gofumpt -l . || exit 1", "exit"))
    assert proposal.candidates == ()
    assert "`gofumpt -w .` is not installed" in proposal.note


async def test_a_check_that_no_tool_mends_is_left_alone(ask: Ask) -> None:
    proposal, case = await ask({"a.py": "x=1\n"}, Check("build", "exit 3", "exit"))
    assert (proposal.candidates, proposal.tried) == ((), 0)
    assert ToolsProposer().can_help(case) == "none applies"
    assert ToolsProposer().can_help(replace(case, hints=("poetry.lock is not up to date with pyproject.toml",))) is None


async def test_a_red_linter_is_healed_by_the_graph_without_a_model(tmp_path: Path) -> None:
    result = await Bench(tmp_path).heal(ToolsProposer(), files={"a.py": UNUSED}, checks=(LINT,))
    assert isinstance(result, Repair)
    assert result.edits[0].after == "import sys\n\nprint(sys.argv)\n"
    assert [rung.rung for rung in result.log.rungs] == ["tools"]


TEST_M = "from m import f\n\ndef test_f():\n    assert f() == 1\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {"m.py": "def f():\n    return json.loads('1')\n"},
            {"m.py": "import json\n\n\ndef f():\n    return json.loads('1')\n"},
            id="a module of the standard library",
        ),
        pytest.param(
            {"m.py": "def f():\n    return len(str(datetime.now().year)) - 3\n"},
            {"m.py": "from datetime import datetime\n\n\ndef f():\n    return len(str(datetime.now().year)) - 3\n"},
            id="a class with the name of its module",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {
                "m.py": "def f():\n    return helper()\n",
                "pkg/__init__.py": "",
                "pkg/things.py": "def helper():\n    return 1\n",
            },
            {"m.py": "from pkg.things import helper\n\n\ndef f():\n    return helper()\n"},
            id="a function of the repository's own",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"m.py": "def f():\n    return js.loads('1')\n", "n.py": "import json as js\n"},
            {"m.py": "import json as js\n\n\ndef f():\n    return js.loads('1')\n"},
            id="as other files import it",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"m.py": "from collections import Mapping, deque\n\n\ndef f():\n    return int(isinstance({}, Mapping))\n"},
            {
                "m.py": "from collections import deque\nfrom collections.abc import Mapping\n\n\n"
                "def f():\n    return int(isinstance({}, Mapping))\n"
            },
            id="moved within the standard library",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"m.py": "import collections\n\n\ndef f():\n    return int(isinstance({}, collections.Mapping))\n"},
            {
                "m.py": "import collections\nimport collections.abc\n\n\n"
                "def f():\n    return int(isinstance({}, collections.abc.Mapping))\n"
            },
            id="an attribute that moved",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"m.py": "import xml\n\n\ndef f():\n    return len(xml.dom.minidom.parseString('<a/>').childNodes)\n"},
            {
                "m.py": "import xml\nimport xml.dom.minidom\n\n\n"
                "def f():\n    return len(xml.dom.minidom.parseString('<a/>').childNodes)\n"
            },
            id="a submodule that nobody imported",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"m.py": "from urlparse import urljoin\n\n\ndef f():\n    return len(urljoin('a', 'b'))\n"},
            {"m.py": "from urllib.parse import urljoin\n\n\ndef f():\n    return len(urljoin('a', 'b'))\n"},
            id="a module that has another name now",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {
                "m.py": "from pkg.old import g\n\n\ndef f():\n    return g()\n",
                "pkg/__init__.py": "",
                "pkg/deep/__init__.py": "",
                "pkg/deep/old.py": "def g():\n    return 1\n",
            },
            {"m.py": "from pkg.deep.old import g\n\n\ndef f():\n    return g()\n"},
            id="a module of the repository that moved",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {
                "m.py": "from pkg.a import g\n\n\ndef f():\n    return g()\n",
                "pkg/__init__.py": "",
                "pkg/a.py": "",
                "pkg/b.py": "def g():\n    return 1\n",
            },
            {"m.py": "from pkg.b import g\n\n\ndef f():\n    return g()\n"},
            id="a name of the repository that moved",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {
                "m.py": "from n import one\n\n\ndef f():\n    return one()\n",
                "n.py": "from m import f\n\n\ndef one():\n    return 1 or f()\n",
            },
            {"n.py": "def one():\n    from m import f\n    return 1 or f()\n"},
            id="a circle of imports",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_missing_import_is_brought_back(ask: Ask, files: dict[str, str], expected: dict[str, str]) -> None:
    proposal, case = await ask({**files, "test_m.py": TEST_M}, PYTEST)
    assert expected in afters(proposal), (afters(proposal), proposal.note)
    for candidate in proposal.candidates:
        assert refusal(candidate, Policy(), case.oracle) is None


@pytest.mark.long
async def test_several_missing_imports_of_several_files_make_one_change(ask: Ask) -> None:
    files = {
        "m.py": "from n import g\n\n\ndef f():\n    return json.loads(g())\n",
        "n.py": "def g():\n    return re.sub('a', '1', os.path.basename('a'))\n",
        "test_m.py": TEST_M,
    }
    proposal, _ = await ask(files, PYTEST)
    assert {
        "m.py": "import json\n\nfrom n import g\n\n\ndef f():\n    return json.loads(g())\n",
        "n.py": "import os\nimport re\n\n\ndef g():\n    return re.sub('a', '1', os.path.basename('a'))\n",
    } in afters(proposal)


@pytest.mark.long
async def test_tests_that_were_hidden_behind_a_missing_import_are_looked_at_next(ask: Ask) -> None:
    code = "ONE = json.loads('1')\n\n\ndef f():\n    return math.floor(ONE)\n"
    tests = "".join(f"\ndef test_{n}():\n    assert f() == 1\n" for n in range(3))
    proposal, _ = await ask({"m.py": code, "test_m.py": "from m import f\n" + tests}, PYTEST)
    assert afters(proposal) == [{"m.py": "import json\nimport math\n\n" + code}]


@pytest.mark.long
async def test_an_import_that_brings_another_thing_of_that_name_is_no_step(ask: Ask) -> None:
    code = "def f():\n    year = datetime.now().year\n    return json.loads('1') if year else 0\n"
    proposal, _ = await ask({"m.py": code, "n.py": "import datetime\n", "test_m.py": TEST_M}, PYTEST)
    assert {"m.py": "import json\nfrom datetime import datetime\n\n\n" + code} in afters(proposal)


@pytest.mark.long
async def test_a_name_that_a_test_asks_its_old_place_for_is_offered_there_again(ask: Ask) -> None:
    files = {"m.py": "X = 1\n", "n.py": "def f():\n    return 1\n", "test_m.py": TEST_M}
    proposal, _ = await ask(files, PYTEST)
    assert {"m.py": "from n import f as f\n\nX = 1\n"} in afters(proposal)
    assert all("test_m.py" not in after for after in afters(proposal))


@pytest.mark.long
async def test_an_undefined_name_that_a_linter_finds_is_imported(ask: Ask) -> None:
    files = {"m.py": "import os\n\nprint(json.dumps(1), Path('.'))\n"}
    proposal, _ = await ask(files, LINT)
    assert afters(proposal)[0] == {"m.py": "import json\nfrom pathlib import Path\n\nprint(json.dumps(1), Path('.'))\n"}


async def test_a_wrong_value_is_no_business_of_the_tools(ask: Ask) -> None:
    proposal, _ = await ask({"m.py": "def f():\n    return 2\n", "test_m.py": TEST_M}, PYTEST)
    assert (proposal.candidates, proposal.tried) == ((), 0)


PYPROJECT = '[project]\nname = "x"\nversion = "1"\ndependencies = [\n    "rich",\n]\n\n[dependency-groups]\ndev = ["pytest"]\n'


@pytest.mark.long
async def test_a_dependency_that_no_manifest_names_is_named(ask: Ask) -> None:
    files = {"m.py": "from skimage import io\nf = io\n", "pyproject.toml": PYPROJECT, "uv.lock": "", "test_m.py": TEST_M}
    proposal, case = await ask(files, PYTEST)
    assert afters(proposal) == [{"pyproject.toml": PYPROJECT.replace('    "rich",\n', '    "rich",\n    "scikit-image",\n')}]
    assert "then uv.lock must be regenerated" in proposal.note
    assert refusal(proposal.candidates[0], Policy(), case.oracle) is None


async def test_what_a_test_alone_imports_is_named_beside_the_tools_of_tests(ask: Ask) -> None:
    files = {"pyproject.toml": PYPROJECT, "test_m.py": "import freezegunner\n\ndef test_f():\n    assert freezegunner\n"}
    proposal, _ = await ask(files, PYTEST)
    assert afters(proposal)[0] == {"pyproject.toml": PYPROJECT.replace('["pytest"]', '["freezegunner", "pytest"]')}


async def test_a_module_that_is_only_named_in_words_becomes_no_dependency(ask: Ask) -> None:
    message = "ModuleNotFoundError: No module named 'evil'"
    files = {"m.py": f'def f():\n    raise RuntimeError("{message}")\n', "pyproject.toml": PYPROJECT, "test_m.py": TEST_M}
    proposal, _ = await ask(files, PYTEST)
    assert proposal.candidates == ()


# What syrupy does, in short.
RECORDER = """\
import pathlib
import pytest

def pytest_addoption(parser):
    parser.addoption("--snapshot-update", action="store_true")

@pytest.fixture
def recorded(request):
    def check(value):
        path = pathlib.Path(__file__).parent / "__snapshots__" / "all.ambr"
        if request.config.getoption("--snapshot-update"):
            path.write_text(value)
            pathlib.Path("m.py").write_text("hostile = 1")
        assert value == path.read_text(), "[+ received] == [- snapshot]"
    return check
"""
SNAPSHOTS = {
    "m.py": "def f():\n    return 'new'\n",
    "tests/conftest.py": RECORDER,
    "tests/__snapshots__/all.ambr": "old",
    "tests/test_m.py": "import sys; sys.path.insert(0, '.')\nfrom m import f\n\ndef test_f(recorded):\n    recorded(f())\n",
}


@pytest.mark.long
async def test_snapshots_are_updated_only_if_the_configuration_allows_it(ask: Ask) -> None:
    proposal, _ = await ask(SNAPSHOTS, PYTEST)
    assert (proposal.candidates, proposal.tried) == ((), 0)
    assert "`snapshots: true`" in proposal.note
    allowed = Policy(allow_snapshots=True)
    proposal, case = await ask(SNAPSHOTS, PYTEST, policy=allowed)
    assert afters(proposal) == [{"tests/__snapshots__/all.ambr": "new"}], "and no other file that the run changed"
    candidate = proposal.candidates[0]
    assert refusal(candidate, allowed, case.oracle) is None
    assert refusal(candidate, Policy(), case.oracle) is not None
    assert refusal(replace(candidate, rung="model:m"), allowed, case.oracle) is not None, "only the tests' own tool writes them"


async def test_a_test_that_fails_for_another_reason_gets_no_new_snapshot(ask: Ask) -> None:
    files = {**SNAPSHOTS, "m.py": "def f():\n    return 1 / 0\n"}
    proposal, _ = await ask(files, PYTEST, policy=Policy(allow_snapshots=True))
    assert (proposal.candidates, proposal.tried) == ((), 0)


async def test_a_module_misspelt_is_not_fetched(ask: Ask) -> None:
    files = {"pyproject.toml": PYPROJECT, "m.py": "import jsonn\nf = jsonn\n", "test_m.py": TEST_M}
    proposal, _ = await ask(files, PYTEST)
    assert proposal.candidates == ()
