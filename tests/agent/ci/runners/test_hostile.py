import pytest

from agent.ci.runners.follow import follow, follow_script
from agent.ci.runners.followed import Followed, Unfollowed
from tests.agent.ci.runners.project import project

WIDE = 10
DEEP = range(15)
LOOPS = "".join("    " * (n + 1) + f"for v{n} in [{'1,' * 50}]:\n" for n in range(8)) + "    " * 9 + "pass\n"
FILES = {
    "make t": {"Makefile": "A0 =\n" + "".join(f"A{n + 1} = {f'$(A{n})' * WIDE}\n" for n in DEEP) + "t:\n\techo $(A15)\n"},
    "make u": {"Makefile": "u:\n" + "\tmake u\n" * WIDE},
    "poe p15": {"pyproject.toml": "[tool.poe.tasks]\np0 = ''\n" + "".join(f"p{n + 1} = {[f'p{n}'] * WIDE}\n" for n in DEEP)},
    "task t15": {"Taskfile.yml": "tasks:\n  t0: []\n" + "".join(f"  t{n + 1}: {{deps: {[f't{n}'] * WIDE}}}\n" for n in DEEP)},
    "just j15": {"justfile": "j0:\n" + "".join(f"j{n + 1}: {f'j{n} ' * WIDE}\n" for n in DEEP)},
    "hatch run h15": {
        "pyproject.toml": "[tool.hatch.envs.default.scripts]\nh0 = ''\n"
        + "".join(f"h{n + 1} = {[f'h{n}'] * WIDE}\n" for n in DEEP)
    },
    "nox -s n": {"noxfile.py": "import nox\n@nox.session\ndef n(session):\n" + LOOPS},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", FILES)
def test_little_text_that_names_endless_work_is_refused_by_name(line: str) -> None:
    found = follow(line.split(), project(FILES[line]), {})
    said = found.reason if isinstance(found, Unfollowed) else " ".join(found.notes) if isinstance(found, Followed) else ""
    assert "too often" in said or "more than" in said


def test_what_follows_an_endless_runner_in_a_script_stays() -> None:
    found = follow_script("poe p15\npytest -q", project(FILES["poe p15"]), {})
    assert found.command == "poe p15\npytest -q"
    assert "too often" in found.notes[0]
