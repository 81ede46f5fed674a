import pytest

from agent.ci.runners.context import Followed, Unfollowed
from agent.ci.runners.dispatch import follow, follow_script
from tests.agent.ci.runners.project import project

WIDE = 10
DEEP = range(15)
FILES = {
    "poe p15": {"pyproject.toml": "[tool.poe.tasks]\np0 = ''\n" + "".join(f"p{n + 1} = {[f'p{n}'] * WIDE}\n" for n in DEEP)},
    "task t15": {"Taskfile.yml": "tasks:\n  t0: []\n" + "".join(f"  t{n + 1}: {{deps: {[f't{n}'] * WIDE}}}\n" for n in DEEP)},
    "just j15": {"justfile": "j0:\n" + "".join(f"j{n + 1}: {f'j{n} ' * WIDE}\n" for n in DEEP)},
    "hatch run h15": {
        "pyproject.toml": "[tool.hatch.envs.default.scripts]\nh0 = ''\n"
        + "".join(f"h{n + 1} = {[f'h{n}'] * WIDE}\n" for n in DEEP)
    },
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", FILES)
def test_little_text_that_names_endless_work_is_refused_by_name(line: str) -> None:
    found = follow(line.split(), project(FILES[line]), {})
    said = found.reason if isinstance(found, Unfollowed) else " ".join(found.notes) if isinstance(found, Followed) else ""
    assert "too often" in said or "more than" in said


HUGE = {
    "tox -e py": [
        {"tox.ini": f"[tox]\nenv_list = py{' ' * 200_000}x\n[testenv]\ncommands = pytest{' ' * 200_000}x\n"},
        {"tox.ini": f"[tox]\nenv_list = {'{' * 60_000}\n[testenv]\ncommands = pytest\n"},
        {"tox.ini": f"[tox]\nenv_list = {'{a,a,a,a,a,a,a,a}' * 20}\n[testenv]\ncommands = pytest\n"},
    ],
    "nox": [{"noxfile.py": "# /// script\n" * 40_000}, {"noxfile.py": "import nox_a\n" * 40_000}],
    "just t": [{"justfile": f"t:\n  echo {'{{' * 100_000}\n"}],
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("line", "files"), [(line, files) for line, those in HUGE.items() for files in those])
def test_hostile_files_are_read_in_bounded_time(line: str, files: dict[str, str]) -> None:
    follow(line.split(), project(files), {})


def test_what_follows_an_endless_runner_in_a_script_stays() -> None:
    found = follow_script("poe p15\npytest -q", project(FILES["poe p15"]), {})
    assert found.command == "poe p15\npytest -q"
    assert "too often" in found.notes[0]
