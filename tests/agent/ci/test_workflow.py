from agent.ci.workflow import Job, read_job

WORKFLOW = """
on: [push]
env: {LEVEL: outer}
defaults: {run: {working-directory: pkg}}
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: ruff check .
  tests:
    name: Unit tests
    strategy:
      matrix:
        os: [ubuntu-latest, macos-latest]
        python-version: [3.10, "3.12"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "${{ matrix.python-version }}"}
      - name: Test on ${{ matrix.os }}
        run: pytest --level ${{ env.LEVEL }}
        env: {LEVEL: inner}
      - run: |
          echo ${{ secrets.TOKEN }}
          echo second
        working-directory: .
  named:
    name: py${{ matrix.v }} tests
    strategy: {matrix: {v: ["3.11", "3.13"]}}
    services: {db: {image: postgres}}
    steps: []
"""


def job(name: str) -> Job:
    found = read_job(WORKFLOW, name)
    assert isinstance(found, Job), found
    return found


def test_a_matrix_run_is_found_by_its_shown_name() -> None:
    found = job("Unit tests (macos-latest, 3.10)")
    assert (found.id, found.python) == ("tests", "3.10")
    step = found.step("Test on macos-latest")
    assert step is not None
    assert (step.run, step.cwd, step.number) == ("pytest --level inner", "pkg", 3)
    last = found.step("Run echo ${{ secrets.TOKEN }}")
    assert last is not None
    assert last.unresolved
    assert last.cwd == "."


def test_a_job_is_found_by_its_id_or_by_a_title_with_expressions() -> None:
    assert job("lint").steps[0].name == "Run ruff check ."
    assert job("py3.13 tests").id == "named"
    assert job("py3.13 tests").services


def test_what_cannot_be_read_says_why() -> None:
    assert "no job named 'gone'" in str(read_job(WORKFLOW, "gone"))
    assert "not valid YAML" in str(read_job("a: [", "x"))
    assert "no jobs" in str(read_job("- a", "x"))
    assert "aliases" in str(read_job("a: &a [1]\nb: *a\n", "x"))
    assert "too large" in str(read_job(" " * 1_000_000, "x"))
