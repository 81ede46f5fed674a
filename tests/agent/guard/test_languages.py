"""What a repair may not do in repositories of JavaScript, Go, Rust and Java, with what beside it it may."""

from __future__ import annotations

import json

import pytest

from agent.checks.printed import READERS
from agent.contract.proposal import Candidate, FileChange
from agent.contract.task import Policy
from agent.contract.verdicts import Check, Oracle, Reader, VerdictId
from agent.guard.lines import line_findings
from agent.guard.rules import refusal
from agent.guard.rust import inline_items
from agent.source.test_files import is_test

PACKAGE = json.dumps({"name": "a", "scripts": {"test": "vitest run"}, "dependencies": {"x": "1"}, "vitest": {"a": 1}})
RUST = """\
/// Adds.
///
/// ```
/// assert_eq!(a::add(1, 2), 3);
/// ```
pub fn add(a: i32, b: i32) -> i32 {
    let brace = '}'; // } #[test]
    let text = "#[cfg(test)] {";
    a - b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3, "}");
    }
}

pub fn last() {}
"""


def rule(edit: FileChange, reader: Reader = "javascript", target: str = "tests/a.test.js::adds", rung: str = "model:m") -> str:
    check = Check("tests", "npm test", reader)
    oracle = Oracle((check,), {"tests": frozenset({VerdictId(target)})}, {"tests": frozenset()})
    found = refusal(Candidate(rung, (edit,), "a change"), Policy(refuses=("swallowed",)), oracle)
    return found.rule if found else ""


def adds(path: str, line: str, before: str = "const a = 1\n") -> FileChange:
    return FileChange(path, before, before + line + "\n")


@pytest.mark.parametrize(
    "path",
    [
        "src/a.test.ts",
        "src/a.spec.mjs",
        "src/a-test.js",
        "src/__tests__/a.ts",
        "test/a.js",
        "e2e/a.ts",
        "pkg/a_test.go",
        "pkg/testdata/a.json",
        "tests/it.rs",
        "src/tests.rs",
        "src/test/java/a/B.java",
        "src/main/a/CalcTest.java",
        "a/TestCalc.kt",
        "src/__snapshots__/a.snap",
        "jest.setup.ts",
        "test.py",
    ],
)
def test_each_ecosystems_tests_are_known_by_their_paths(path: str) -> None:
    assert is_test(path)
    assert rule(adds(path, "x")) == "tests"


@pytest.mark.parametrize(
    "path",
    [
        "src/latest.js",
        "src/contest.ts",
        "src/attest.go",
        "src/Latest.java",
        "src/Contest.java",
        "src/inspector.ts",
        "src/lib.rs",
        "shop/test.py",
    ],
)
def test_a_name_that_only_ends_alike_is_no_test(path: str) -> None:
    assert not is_test(path)


@pytest.mark.parametrize(
    ("path", "refused_by"),
    [
        ("vitest.config.ts", "tests"),
        ("vite.config.js", "tests"),
        ("jest.config.cjs", "tests"),
        (".mocharc.yml", "tests"),
        ("web/vitest.workspace.ts", "tests"),
        ("nextest.toml", "tests"),
        ("tsconfig.json", "settings"),
        (".npmrc", "settings"),
        (".cargo/config.toml", "settings"),
        ("build.rs", "settings"),
        ("build.gradle", "settings"),
        ("a/build.gradle.kts", "settings"),
        ("gradlew", "settings"),
        (".mvn/jvm.config", "settings"),
        ("package-lock.json", "lock"),
        ("yarn.lock", "lock"),
        ("Cargo.lock", "lock"),
        ("go.sum", "lock"),
        ("node_modules/a/index.js", "lock"),
        ("babel.config.js", "settings"),
    ],
)
def test_what_decides_and_what_builds_is_left_alone(path: str, refused_by: str) -> None:
    assert rule(adds(path, "x")) == refused_by


@pytest.mark.parametrize(
    ("before", "after", "refused_by"),
    [
        ('"x": "1"', '"x": "2"', ""),
        ('"vitest run"', '"true"', "settings"),
        ('"a": 1', '"a": 2', "settings"),
        ('"name": "a"', '"name": "a", "type": "module"', "settings"),
        ('"name": "a"', '"name": "a", "jest": {}', "settings"),
    ],
)
def test_a_manifest_of_node_may_change_in_its_dependencies_alone(before: str, after: str, refused_by: str) -> None:
    assert before in PACKAGE
    assert rule(FileChange("package.json", PACKAGE, PACKAGE.replace(before, after))) == refused_by


@pytest.mark.parametrize(
    ("after", "refused_by"),
    [
        ("module a\n\nrequire (\n\tb v1.0.0\n\tc v1.1.0 // indirect\n)\n", ""),
        ("module a\n\nrequire b v1.0.0\n\nreplace b => ../b\n", "settings"),
        ("module other\n\nrequire b v1.0.0\n", "settings"),
    ],
)
def test_a_manifest_of_go_may_change_in_what_it_requires(after: str, refused_by: str) -> None:
    assert rule(FileChange("go.mod", "module a\n\nrequire b v1.0.0\n", after)) == refused_by


POM = (
    "<project><dependencies><dependency><version>1</version></dependency></dependencies>"
    "<build><skip>no</skip></build></project>"
)


@pytest.mark.parametrize(
    ("before", "after", "refused_by"),
    [
        ("<version>1", "<version>2", ""),
        ("<skip>no", "<skip>yes", "settings"),
        ("<project>", "<!DOCTYPE a [<!ENTITY b 'c'>]><project>", "settings"),
    ],
)
def test_a_manifest_of_maven_may_change_in_its_dependencies(before: str, after: str, refused_by: str) -> None:
    assert rule(FileChange("pom.xml", POM, POM.replace(before, after)), "java") == refused_by


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/a.js", "import { vi } from 'vitest'"),
        ("src/a.ts", "const assert = require('chai')"),
        ("src/a.js", "if (process.env.NODE_ENV === 'test') return 3"),
        ("src/a.js", "if (process.env.VITEST) return 3"),
        ("src/a.js", "process.env['VI' + 'TEST']"),
        ("src/a.js", "process.send({ passed: true })"),
        ("src/a.js", "process.on('uncaughtException', () => 1)"),
        ("src/a.js", "globalThis.expect = () => ok"),
        ("src/a.js", "assert.strictEqual = () => {}"),
        ("src/a.js", "Object.is = () => true"),
        ("src/a.js", "Array.prototype.includes = () => true"),
        ("src/a.js", "Object.defineProperty(Object, 'is', x)"),
        ("src/a.js", "fs.readFileSync('/proc/self/environ')"),
        ("src/a.ts", "console.log('test result: ok')"),
        ("a.go", "if testing.Testing() { return 3 }"),
        ("a.go", 'fmt.Println("--- PASS: TestA")'),
        ("src/lib.rs", "if cfg!(test) { return 3; }"),
        ("src/lib.rs", "#[cfg(test)]\nfn add() {}"),
        ("src/lib.rs", 'println!("test adds ... ok");'),
        ("src/main/A.java", "import org.junit.Assert;"),
        ("src/main/A.java", "new Throwable().getStackTrace()"),
    ],
)
def test_code_may_not_reach_for_what_runs_its_tests(path: str, line: str) -> None:
    assert rule(adds(path, line)) == "under-test"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/a.js", "import assert from 'node:assert'"),
        ("src/a.js", "const assert = require('assert')"),
        ("src/a.js", "if (a === b) return Object.is(a, b)"),
        ("src/a.js", "const same = Object.keys(a).length === 3"),
        ("src/a.js", "if (process.env.NODE_ENV === 'production') return"),
        ("src/a.ts", "const find = (a: string): boolean => Array.isArray(a)"),
        ("src/a.js", "x.map = new Map()"),
        ("src/a.js", "try { a() } catch (error) { throw new TypeError(error) }"),
        ("a.go", "if len(os.Args) > 1 { return }"),
        ("src/lib.rs", "pub fn test(a: i32) -> i32 { a }"),
        ("src/main/A.java", "return contest.test(a);"),
    ],
)
def test_ordinary_code_is_allowed(path: str, line: str) -> None:
    assert rule(adds(path, line)) == ""


def test_hiding_an_error_is_refused() -> None:
    assert rule(adds("src/a.js", "try { a() } catch {}")) == "swallowed"
    assert rule(adds("A.java", "try { a(); } catch (Exception e) { }")) == "swallowed"


def test_what_was_so_before_is_no_offence() -> None:
    before = "if (process.env.NODE_ENV === 'test') {\n  a - b\n}\n"
    assert rule(FileChange("src/a.js", before, before.replace("a - b", "a + b"))) == ""


def test_tests_of_rust_are_found_among_the_code_that_they_test() -> None:
    (found,) = inline_items(RUST)
    assert found.startswith("#[cfg(test)]\nmod tests {")
    assert found.endswith('assert_eq!(add(1, 2), 3, "}");\n    }\n}')


@pytest.mark.parametrize(
    ("before", "after", "refused_by"),
    [
        ("a - b", "a + b", ""),
        ("pub fn last() {}", "pub fn last() {}\n\npub fn more() {}", ""),
        ("assert_eq!(add(1, 2), 3, ", "assert_eq!(add(1, 2), -1, ", "tests"),
        ("    #[test]\n", "    #[test]\n    #[ignore]\n", "tests"),
        ("#[cfg(test)]\nmod", "#[cfg(any())]\nmod", "tests"),
        ("assert_eq!(a::add(1, 2), 3);", "assert!(true);", "tests"),
    ],
)
def test_a_file_of_rust_may_change_beside_its_tests(before: str, after: str, refused_by: str) -> None:
    assert before in RUST
    assert rule(FileChange("src/lib.rs", RUST, RUST.replace(before, after)), "rust", "src/lib.rs::tests::adds") == refused_by


@pytest.mark.parametrize("reader", [*READERS, "exit"])
def test_where_only_output_tells_no_way_out_may_be_added(reader: Reader) -> None:
    assert rule(adds("a.go", "os.Exit(0)"), reader, "a.TestA") == "way-out"


def test_a_file_of_tests_that_passes_by_ending_well_allows_no_way_out_either() -> None:
    assert rule(adds("src/a.js", "process.exit(0)"), target="tests/a.test.js") == "way-out"


@pytest.mark.parametrize(
    "line",
    [
        "process.exit(0)",
        "process?.['ex' + name](0)",
        "const p = process",
        "process.exitCode = 0",
        "const { exit } = process",
        "require('process').reallyExit(0)",
        ";process.exit(0)",
        "/* a */ process.exit(0)",
        "/*\n// */ process.exit(0)",
        "`\n// ${process.exit(0)}`",
    ],
)
def test_a_process_of_nodes_tests_may_not_leave_early_whatever_it_has_told(line: str) -> None:
    assert rule(adds("src/a.js", line)) == "way-out"


@pytest.mark.parametrize(
    "line",
    [
        "process.exit(1)",
        "process.exitCode = 2",
        "// exit",
        "/**\n * The exit code.\n */",
        "const found = /a/.exec(text)",
        "child.on('exit', done)",
        "process.cwd()",
    ],
)
def test_failing_on_purpose_is_no_way_out(line: str) -> None:
    assert rule(adds("src/a.js", line)) == ""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/lib.rs", 'std::process::Command::new("true").exec();'),
        ("src/lib.rs", 'Command::new("true") . exec /* now */ ();'),
        ("src/lib.rs", "use std::os::unix::process::CommandExt as _;"),
        ("src/lib.rs", "unsafe { libc::_exit(0) }"),
        ("src/lib.rs", "use nix::unistd::execv;"),
        ("src/lib.rs", "let mut out = unsafe { File::from_raw_fd(1) };"),
        ("src/lib.rs", 'let mut out = File::create("/dev/stdout")?;'),
        ("src/lib.rs", 'unsafe extern "C" { fn execl(path: *const u8); }'),
        ("a.go", 'syscall.Exec("/bin/true", []string{"true"}, nil)'),
        ("a.go", '\t"syscall"'),
        ("a.go", 'import s "golang.org/x/sys/unix"'),
        ("a.go", 'out := os.NewFile(1, "out")'),
        ("src/main/A.java", "new FileOutputStream(FileDescriptor.out)"),
        ("a.rb", 'exec "true"'),
        ("a.c", 'execl("/bin/true", "true", 0);'),
    ],
)
def test_another_program_in_the_place_of_the_tests_is_a_way_out(path: str, line: str) -> None:
    assert rule(adds(path, line), "rust", "src/lib.rs::tests::adds") == "way-out"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/lib.rs", "let found = Entity::find().exec(&db).await?;"),
        ("src/lib.rs", 'let made = Command::new("git").output()?;'),
        ("src/lib.rs", 'pub extern "C" fn add(a: i32) -> i32 {'),
        ("src/lib.rs", 'println!("total: {}", a);'),
        ("src/lib.rs", "io::stdout().flush()?;"),
        ("src/lib.rs", 'writeln!(f, "{}", a)?;'),
        ("a.go", '_, err = db.Exec("delete from a where b = ?", c)'),
        ("a.go", 'text := fmt.Sprintf("%d", a)'),
        ("a.go", 'fmt.Printf("total: %d", a)'),
        ("src/main/A.java", 'System.out.println("total: " + a);'),
        ("src/main/A.java", "executor.execute(task);"),
    ],
)
def test_ordinary_code_of_languages_whose_verdicts_are_printed_is_allowed(path: str, line: str) -> None:
    assert rule(adds(path, line), "go", "a.TestA") == ""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/lib.rs", 'println!("test {} ... {}", name, ok);'),
        ("src/lib.rs", 'println!("{text}");'),
        ("src/lib.rs", 'print!("so\\n{}", text);'),
        ("src/lib.rs", 'eprintln!(\n    "test {} is {}", a, b);'),
        ("src/lib.rs", "let mut out = std::io::stdout().lock();"),
        ("a.go", 'fmt.Printf("%s", text)'),
        ("a.go", "fmt.Println(text)"),
        ("a.go", "out := os.Stdout"),
        ("src/main/A.java", "System.out.println(text);"),
        ("src/main/A.java", "PrintStream out = System.out;"),
    ],
)
def test_where_verdicts_are_printed_nothing_like_one_may_be(path: str, line: str) -> None:
    assert rule(adds(path, line), "rust", "src/lib.rs::tests::adds") == "under-test"
    was = f"{line}\n"
    assert rule(FileChange(path, was, f"{line} // so\n"), "rust", "src/lib.rs::tests::adds") == ""


@pytest.mark.parametrize(
    "line",
    [
        "macro_rules! assert_eq { ($($t:tt)*) => {} }",
        "macro_rules /* a */ !\n    r#assert { () => {} }",
        '/* /* a */ " */ macro_rules! assert_eq { () => {} } // "',
        "macro_rules! make { ($n:ident) => { macro_rules! $n { () => {} } } }",
        "macro_rules! panic { ($($t:tt)*) => {} }",
        "macro_rules! debug_assert_ne { ($($t:tt)*) => {} }",
        "macro_rules! matches { ($($t:tt)*) => { true } }",
        "pub(crate) use nothing as assert_eq;",
        "pub use quiet::{\n    other,\n    assert_eq,\n};",
        "pub use quiet::panic;",
        "#[macro_use]\nmod quiet;",
        "#[cfg_attr(all(), macro_use)]\nextern crate quiet;",
        'include!("quiet.txt");',
        '#[path = "quiet.txt"]\nmod quiet;',
        '#[link_section = ".init_array"]\nstatic A: fn() = a;',
    ],
)
def test_macros_of_rust_that_decide_may_not_be_replaced(line: str) -> None:
    assert rule(adds("src/a.rs", line), "rust", "src/lib.rs::tests::adds") == "under-test"


@pytest.mark.parametrize(
    "line",
    [
        "macro_rules! square { ($a:expr) => { $a * $a } }",
        "use std::panic;",
        "use std::fmt::{self, Write as _};",
        "use crate::assertions::Checked;",
        "use regex::Matches;",
        'assert_eq!(a, b, "macro_rules! assert_eq");',
        "// macro_rules! assert_eq would be wrong here",
        'const TEXT: &str = include_str!("a.txt");',
        "pub fn f<'a>(b: &'a str) -> impl Fn() + use<'a> { assert!(b.is_empty()); move || () }",
    ],
)
def test_other_macros_of_rust_may_be_written_and_used(line: str) -> None:
    assert rule(adds("src/a.rs", line), "rust", "src/lib.rs::tests::adds") == ""


@pytest.mark.parametrize(
    "line",
    [
        "const A = require('assert'), o = A.strictEqual; A.strictEqual = () => {}",
        "import A from 'node:assert/strict'\nA.equal = () => {}",
        "import { strict as A } from 'assert'\nA['equal'] = () => {}",
        "import * as A from 'assert'\nconst B = A\nB.ok = () => {}",
        "const { strict: A } = require('assert')\nA.ok = () => {}",
        "require('assert').ok = () => {}",
        "(await import('assert')).default.strictEqual = () => {}",
        "const A = require('assert')\nObject.assign(A, { ok() {} })",
        "helper.deepStrictEqual = () => {}",
        "process.prependListener('ex' + 'it', undo)",
        "process.on(name, undo)",
        "process\n  .removeAllListeners()",
        "const { serialize } = require('v8')",
        "import { serialize } from 'node:v8'",
        "process.getBuiltinModule('v8')",
        "globals['pro' + 'cess']",
    ],
)
def test_assertions_of_node_and_what_watches_them_are_left_alone(line: str) -> None:
    assert rule(adds("src/a.js", line)) == "under-test"


@pytest.mark.parametrize(
    "line",
    [
        "const A = require('assert')\nA.strictEqual(a, b)",
        "const A = require('./assert')\nA.level = 3",
        "import A from 'assert'\nconst b = A.ok === A",
        "process.on(\n  'SIGINT',\n  stop,\n)",
        "other.on('data' + number, read)",
        "const key = names['a' + number]",
        "this.process(data)",
    ],
)
def test_assertions_and_events_may_be_used(line: str) -> None:
    assert rule(adds("src/a.js", line)) == ""


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.rs", "use a "), ("src/a.rs", "/*"), ("src/a.rs", 'print!("'), ("src/a.js", "import a "), ("src/a.js", "a:"),
        ("src/a.js", "{"), ("src/a.js", "a"), ("src/a.js", "process."), ("a.go", 'fmt.Print("\\n'), ("src/a.js", "a = a\n"),
    ],
)  # fmt: skip
def test_a_hostile_change_is_judged_quickly(path: str, text: str) -> None:
    edit = FileChange(path, "", text * (200_000 // len(text)))
    list(line_findings(edit, no_exits=True, no_verdicts=True))


def test_a_change_that_shows_fewer_warnings_is_asked_about() -> None:
    [(rule_, sentence)] = line_findings(adds("src/a.js", "emitter.setMaxListeners(0)"))
    assert (rule_, sentence) == ("warnings", "src/a.js would change which warnings are shown")
    assert not list(line_findings(adds("src/a.js", "emitter.removeListener('x', f)")))
