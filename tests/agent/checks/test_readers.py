"""What the runners of Rust, Go and Java print, read as verdicts; Rust's for real where cargo is there."""

from __future__ import annotations

import json
import shutil

import pytest

from agent.checks.findings import read_findings, read_traceback
from agent.checks.printed import read_go, read_java, read_rust
from agent.contract.verdicts import Frame, Verdict
from tests.agent.conftest import RunCheck

PASSED, FAILED, ERROR, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.SKIPPED
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
needs_java = pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
CARGO = {
    "Cargo.toml": '[package]\nname = "demo"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": """\
/// Adds.
///
/// ```
/// assert_eq!(demo::add(1, 2), 3);
/// ```
pub fn add(a: i32, b: i32) -> i32 {
    a - b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3, "sum");
    }

    #[test]
    fn nothing() {
        assert_eq!(add(1, 0), 1);
    }

    #[test]
    #[ignore]
    fn later() {}
}
""",
    "tests/it.rs": "#[test]\nfn works() {\n    assert!(demo::add(1, 1) == 2);\n}\n",
}


@needs_cargo
@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
async def test_every_kind_of_test_of_rust_is_told(run_check: RunCheck) -> None:
    run = await run_check(CARGO, "cargo test", "rust", timeout=120.0)
    assert run.verdicts == {
        "src/lib.rs::tests::adds": FAILED,
        "src/lib.rs::tests::nothing": PASSED,
        "src/lib.rs::tests::later": SKIPPED,
        "tests/it.rs::works": FAILED,
        "src/lib.rs - add (line 3)": FAILED,
    }, run.output
    adds = next(one for one in run.failures if one.id == "src/lib.rs::tests::adds")
    assert adds.message == "assertion `left == right` failed: sum left: -1 right: 3"
    assert Frame("src/lib.rs", 16) in adds.frames


@pytest.mark.long
@needs_cargo
@pytest.mark.asyncio(loop_scope="session")
async def test_rust_that_is_mended_is_green_and_rust_that_does_not_build_hides_its_tests(run_check: RunCheck) -> None:
    mended = await run_check(
        {**CARGO, "src/lib.rs": CARGO["src/lib.rs"].replace("a - b", "a + b")}, "cargo test", "rust", timeout=120
    )
    assert (mended.exit_code, mended.red, len(mended.green)) == (0, frozenset(), 4), mended.output
    broken = await run_check(
        {**CARGO, "src/lib.rs": CARGO["src/lib.rs"].replace("a - b", "c")}, "cargo test", "rust", timeout=120
    )
    assert broken.verdicts == {"exit": ERROR}
    assert "src/lib.rs:7" in broken.failures[0].details


@pytest.mark.long
@needs_cargo
@pytest.mark.asyncio(loop_scope="session")
async def test_printing_what_a_runner_prints_makes_nothing_green(run_check: RunCheck) -> None:
    liar = CARGO["src/lib.rs"].replace("    a - b", '    println!("\\ntest tests::adds ... ok\\n"); std::process::exit(1)')
    run = await run_check({**CARGO, "src/lib.rs": liar}, "cargo test --lib -- --nocapture", "rust", timeout=120)
    assert run.exit_code != 0
    assert run.red == {"exit"}


@pytest.mark.long
@needs_java
@pytest.mark.asyncio(loop_scope="session")
async def test_java_without_a_build_tool_is_told_by_its_exit_code(run_check: RunCheck) -> None:
    files = {
        "Calc.java": "class Calc { static int add(int a, int b) { return a - b; } }\n",
        "CalcTest.java": (
            "class CalcTest { public static void main(String[] a) { if (Calc.add(1, 2) != 3) throw new Error(); } }"
        ),
    }
    command = "javac -d out *.java && java -cp out CalcTest"
    assert (await run_check(files, command, "exit")).verdicts == {"exit": FAILED}
    files["Calc.java"] = files["Calc.java"].replace("a - b", "a + b")
    assert (await run_check(files, command, "exit")).verdicts == {"exit": PASSED}


def test_what_an_older_cargo_prints_is_read_too() -> None:
    text = """\
     Running unittests src/main.rs (target/debug/deps/a-1)
test a::b - should panic ... ok
test a::c ... FAILED
---- a::c stdout ----
thread 'a::c' panicked at 'no way', src/a.rs:3:5
note: run with `RUST_BACKTRACE=1`
"""
    verdicts, (failure,) = read_rust(text, "/repo")
    assert verdicts == {"src/main.rs::a::b": PASSED, "src/main.rs::a::c": FAILED}
    assert (failure.message, failure.frames) == ("no way", (Frame("src/a.rs", 3),))


def go(*events: tuple[str, str, str, str]) -> str:
    names = ("Package", "Test", "Action", "Output")
    return "\n".join(json.dumps({name: value for name, value in zip(names, one, strict=True) if value}) for one in events)


def test_gos_events_are_verdicts() -> None:
    text = "go: downloading nothing\n" + go(
        ("a/b", "TestAdd", "run", ""),
        ("a/b", "TestAdd", "output", "=== RUN   TestAdd\n"),
        ("a/b", "TestAdd/small", "output", "    add_test.go:9: got -1, want 3\n"),
        ("a/b", "TestAdd/small", "fail", ""),
        ("a/b", "TestAdd/large", "pass", ""),
        ("a/b", "TestAdd", "fail", ""),
        ("a/b", "TestSub", "pass", ""),
        ("a/b", "TestLater", "skip", ""),
        ("a/b", "", "fail", ""),
        ("a/c", "", "output", "/repo/c/c.go:3:1: undefined: x\n"),
        ("a/c", "", "fail", ""),
        ("a/d", "", "pass", ""),
    )
    verdicts, failures = read_go(text, "/repo")
    assert verdicts == {
        "a/b.TestAdd/small": FAILED, "a/b.TestAdd/large": PASSED, "a/b.TestSub": PASSED, "a/b.TestLater": SKIPPED, "a/c": ERROR,
    }  # fmt: skip
    assert [(one.message, one.frames) for one in failures] == [
        ("got -1, want 3", (Frame("add_test.go", 9),)),
        ("1: undefined: x", (Frame("c/c.go", 3),)),
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"Action": 1}', '{"Action": "pass"}', "[" * 5000, '{"Action":"pass","Test":null}']
)
def test_what_is_no_event_of_go_is_passed_over(text: str) -> None:
    assert read_go(text, "/repo") == ({}, ())


MAVEN = """\
[INFO] Running org.shop.CartTest
[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.05 s <<< FAILURE! -- in org.shop.CartTest
[ERROR] org.shop.CartTest.sums -- Time elapsed: 0.003 s <<< FAILURE!
org.opentest4j.AssertionFailedError: expected: <3> but was: <-1>
\tat org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:55)
\tat org.shop.Cart.sum(Cart.java:7)
\tat org.shop.CartTest.sums(CartTest.java:12)

[INFO] Running org.shop.PriceTest
[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0.01 s -- in org.shop.PriceTest
[INFO] Running org.shop.LaterTest
[WARNING] Tests run: 1, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0 s - in org.shop.LaterTest
[ERROR] Tests run: 6, Failures: 1, Errors: 0, Skipped: 2
"""


def test_surefires_classes_are_verdicts() -> None:
    verdicts, (failure,) = read_java(MAVEN, "/repo")
    assert verdicts == {"org.shop.CartTest": FAILED, "org.shop.PriceTest": PASSED, "org.shop.LaterTest": SKIPPED}
    assert failure.message == "org.opentest4j.AssertionFailedError: expected: <3> but was: <-1>"
    assert failure.frames == (
        Frame("src/test/java/org/shop/CartTest.java", 12, "sums"),
        Frame("src/main/java/org/shop/Cart.java", 7, "sum"),
    )


LONG = 1_000_000  # characters; read in seconds where each is looked at once, in hours where each is looked at for each other


def go_said(text: str) -> str:
    return go(("a", "TestA", "output", text), ("a", "TestA", "fail", "")) + "\n"


HOSTILE = {
    "go, places": lambda: read_go(go_said("panic: " + "a.go" * (LONG // 4)), "/r"),
    "go, many places": lambda: read_go(go_said("panic: " + "a.go" * 480 + "\n") * 500, "/r"),
    "go, names": lambda: read_go(go(*[("a", f"Test{each}", "fail", "") for each in range(30_000)]), "/r"),
    "go, a name": lambda: read_go(go(("a", "Test" + "/a" * (LONG // 2), "fail", "")), "/r"),
    "rust, places": lambda: read_rust("test a ... FAILED\n---- a stdout ----\n" + "panicked at '', " * (LONG // 15), "/repo"),
    "rust, messages": lambda: read_rust(
        "test a ... FAILED\n---- a stdout ----\nthread '" + "' panicked at '" * (LONG // 15), "/repo"
    ),
    "java, times": lambda: read_java("Tests run: 1, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: " + "-" * LONG, "/repo"),
    "findings, blank lines": lambda: read_findings("\n" * LONG),
    "a traceback, blank lines": lambda: read_traceback(" \n" * (LONG // 2)),
    "a traceback, a number": lambda: read_traceback(f'  File "a.py", line {"9" * 5000}'),
}  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_output_cannot_hold_a_reader_up(name: str) -> None:
    HOSTILE[name]()


def test_a_name_of_go_is_told_without_those_that_it_is_a_part_of() -> None:
    events = [("a", name, "fail", "") for name in ("TestA/b/c", "TestA/b", "TestA", "TestAb", "")]
    verdicts, _ = read_go(go(*events), "/r")
    assert verdicts == {"a.TestA/b/c": FAILED, "a.TestAb": FAILED}


def test_the_place_of_a_panic_is_its_whole_path() -> None:
    _, (failure,) = read_go(go_said("panic: no such thing in pkg/sub/calc.go:7: oh\n"), "/r")
    assert (failure.frames, failure.message) == ((Frame("pkg/sub/calc.go", 7),), "oh")
