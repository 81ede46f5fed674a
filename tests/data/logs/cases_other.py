"""Projects in other languages that fail: Go, Rust, Java, C."""

from __future__ import annotations

import reports
from case import Case, told

GO = {
    "go.mod": "module example.com/app\n\ngo 1.19\n",
    "calc.go": "package app\n\nfunc Add(a, b int) int { return a - b }\n",
    "calc_test.go": 'package app\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(1, 2); got != 3 {\n\t\tt.Errorf("Add(1, 2) = %d", got)\n\t}\n}\n\nfunc TestMany(t *testing.T) {\n\tfor _, name := range []string{"one", "two words", "a/b"} {\n\t\tt.Run(name, func(t *testing.T) {\n\t\t\tif name != "one" {\n\t\t\t\tt.Fatal("not one:", name)\n\t\t\t}\n\t\t})\n\t}\n}\n\nfunc TestFine(t *testing.T) {}\n',
    "inner/inner_test.go": 'package inner\n\nimport "testing"\n\nfunc TestInner(t *testing.T) { t.Log("a log"); t.Fail() }\n',
}  # fmt: skip
GO_PANIC = {
    **GO,
    "inner/inner_test.go": 'package inner\n\nimport "testing"\n\nfunc TestPanic(t *testing.T) {\n\tvar m map[string]int\n\tm["a"] = 1\n}\n',
}
GO_BROKEN = {**GO, "inner/inner.go": 'package inner\n\nimport "os"\n\nfunc F() int { return "x" }\n\nvar _ = undefined\n'}
RUST = {
    "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "//! Sums.\n\n/// ```\n/// assert_eq!(app::add(1, 2), 3);\n/// ```\npub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3, \"sum of {}\", 1);\n    }\n\n    #[test]\n    fn fine() {}\n\n    mod inner {\n        #[test]\n        fn unwraps() {\n            let none: Option<i32> = None;\n            none.unwrap();\n        }\n        #[test]\n        #[should_panic]\n        fn should() {}\n    }\n}\n",
    "tests/whole.rs": "#[test]\nfn result() -> Result<(), String> {\n    Err(\"no result\".into())\n}\n",
}  # fmt: skip
RUST_BROKEN = {
    **RUST,
    "src/lib.rs": "use std::collections::HashMap;\n\npub fn add(a: i32) -> String {\n    a\n}\n\npub fn gone() {\n    missing(1);\n    let x = 1;\n    x.nothing();\n}\n",
}
RUST_SYNTAX = {**RUST, "src/lib.rs": "pub fn add(a: i32 -> i32 {\n    a\n}\n"}
JAVA = "package app;\n\npublic class Calc {\n    public static int add(int a, int b) {\n        return a - b;\n    }\n}\n"
JAVA_TEST = 'package app;\n\nimport static org.junit.jupiter.api.Assertions.*;\n\nimport org.junit.jupiter.api.Test;\n\nclass CalcTest {\n    @Test\n    void adds() {\n        assertEquals(3, Calc.add(1, 2));\n    }\n\n    @Test\n    void throwsDeep() {\n        throw new IllegalStateException("deep down");\n    }\n\n    @Test\n    void fine() {}\n}\n'
JAVA_BROKEN = 'package app;\n\nimport java.util.Lits;\n\npublic class Calc {\n    int f() {\n        return "x";\n    }\n    void g() {\n        gone();\n    }\n}\n'
C = '#include <stdio.h>\n\nint f(int a) {\n    int unused = 1;\n    return b;\n}\n\nint main(void) {\n    f("x", 2);\n    printf("%s\\n", 3)\n}\n'
_CARGO = "cargo test --offline"
_CARGO_JSON = "RUSTC_BOOTSTRAP=1 cargo test --offline --no-fail-fast -- -Z unstable-options --format json --report-time > report.json || true"


def _pom(compiler: str, surefire: str, jupiter: str) -> str:
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>app</groupId><artifactId>app</artifactId><version>1</version>
  <properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>
  <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>{jupiter}</version><scope>test</scope></dependency></dependencies>
  <build><plugins><plugin><artifactId>maven-compiler-plugin</artifactId><version>{compiler}</version></plugin>
  <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
  <plugin><artifactId>maven-surefire-plugin</artifactId><version>{surefire}</version></plugin></plugins></build>
</project>
"""


POM = _pom("3.13.0", "3.2.5", "5.10.2")
CASES = (
    Case("go", "go test ./...", "test", GO, reports.go, "go test -json ./... > report.json || true"),
    Case("go-verbose", "go test -v ./...", "test", GO, reports.go, "go test -json ./... > report.json || true"),
    Case("go-panic", "go test ./inner", "test", GO_PANIC, reports.go, "go test -json ./inner > report.json || true"),
    Case("go-build", "go build ./...", "build", GO_BROKEN, built=[told("inner/inner.go:3:8 error", "inner/inner.go", 3), told("inner/inner.go:5:23 error", "inner/inner.go", 5), told("inner/inner.go:7:9 error", "inner/inner.go", 7)]),
    Case("go-vet", "go vet ./...", "lint", {**GO, "vet.go": 'package app\n\nimport "fmt"\n\nfunc Say() { fmt.Printf("%d\\n", "x") }\n'}, reports.go_vet, "go vet -json ./... 2> report.json || true"),
    Case("cargo-test", f"{_CARGO} --no-fail-fast", "test", RUST, reports.cargo_tests, _CARGO_JSON),
    Case("cargo-test-color", f"{_CARGO} --lib --color always -- --color always", "test", RUST, reports.cargo_tests, _CARGO_JSON.replace("--offline", "--offline --lib")),
    Case("cargo-test-quiet", f"{_CARGO} -q --lib -- --test-threads 1", "test", RUST, reports.cargo_tests, _CARGO_JSON.replace("--offline", "--offline --lib")),
    Case("cargo-build", "cargo build --offline", "build", RUST_BROKEN, reports.cargo_build, "cargo build --offline --message-format json > report.json || true"),
    Case("cargo-syntax", "cargo test --offline", "build", RUST_SYNTAX, reports.cargo_build, "cargo build --offline --message-format json > report.json || true"),
    Case("cargo-clippy", "cargo clippy --offline -- -D warnings", "lint", {**RUST, "src/lib.rs": "pub fn f(x: &Vec<i32>) -> bool {\n    return x.len() == 0;\n}\n"}, reports.cargo_build, "cargo clippy --offline --message-format json -- -D warnings > report.json || true"),
    Case("cargo-fmt", "cargo fmt --check", "format", {**RUST, "src/lib.rs": "pub fn f( ) { }\n"}, built=[told("src/lib.rs format", "src/lib.rs", 1)]),
    Case("gcc", "gcc -Wall -Werror=unused-variable -c src/a.c", "build", {"src/a.c": C}, reports.gcc, "gcc -Wall -Werror=unused-variable -fdiagnostics-format=json -c src/a.c 2> report.json || true"),
    Case("gcc-make", "make", "build", {"src/a.c": C, "Makefile": "all: a.o b.o\na.o:\n\tcc -fdiagnostics-color=always -c src/a.c\n"}, reports.gcc, "gcc -fdiagnostics-format=json -c src/a.c 2> report.json || true"),
    Case("gcc-link", "gcc src/b.c", "build", {"src/b.c": "int gone(void);\nint main(void) { return gone(); }\n"}, built=[told("undefined reference to `gone'")]),
    Case("javac", "javac -d out src/app/Calc.java", "build", {"src/app/Calc.java": JAVA_BROKEN}, built=[told(f"src/app/Calc.java:{line} error", "src/app/Calc.java", line) for line in (3, 7, 10)]),
    Case("maven-test", "mvn -o -B test", "test", {"pom.xml": POM, "src/main/java/app/Calc.java": JAVA, "src/test/java/app/CalcTest.java": JAVA_TEST},
         reports.junit("target/surefire-reports", lambda case: f"{case['classname'].split('.')[-1]}.{case['name']}")),
    Case("maven-compile", "mvn -o -B compile", "build", {"pom.xml": POM, "src/main/java/app/Calc.java": JAVA_BROKEN}, built=[
        told("src/main/java/app/Calc.java:3:17 error", "src/main/java/app/Calc.java", 3), told("src/main/java/app/Calc.java:7:16 error", "src/main/java/app/Calc.java", 7), told("src/main/java/app/Calc.java:10:9 error", "src/main/java/app/Calc.java", 10)]),
    Case("maven-dependency", "mvn -o -B test-compile", "dependency", {"pom.xml": POM.replace("5.10.2", "99.1")}, built=[told("org.junit.jupiter:junit-jupiter:jar:99.1")]),
)  # fmt: skip
