"""JavaScript projects that fail: jest, vitest, mocha, node's own runner, eslint, tsc, prettier, npm."""

from __future__ import annotations

import reports
from case import Case, told

CALC = "exports.add = (a, b) => a - b;\nexports.fail = () => { throw new TypeError('deep down'); };\n"
SPEC = """{needs}
describe('calc', () => {{
  describe('add', () => {{
    it('adds two', () => {{
      {same}(add(1, 2), 3);
    }});
    it('adds > none (of it)', () => {{
      {same}(add(0, 0), 0);
    }});
  }});
  it('throws, deep down', () => {{
    fail();
  }});
}});
{top}('stands alone: a [strange] name', () => {{
  {same}({{ a: 1, b: [1, 2] }}, {{ a: 1, b: [1, 3] }});
}});
"""
JEST = SPEC.format(
    needs="const { add, fail } = require('./calc');\nconst same = (a, b) => expect(a).toEqual(b);", same="same", top="test"
)
VITEST = SPEC.format(
    needs="import { describe, it, expect, test } from 'vitest';\nimport { add, fail } from './calc.mjs';\nconst same = (a, b) => expect(a).toEqual(b);",
    same="same",
    top="test",
)
MOCHA = SPEC.format(
    needs="const { add, fail } = require('../calc');\nconst assert = require('assert');",
    same="assert.deepStrictEqual",
    top="it",
)
NODE = SPEC.format(
    needs="const { describe, it, test } = require('node:test');\nconst { add, fail } = require('../calc');\nconst assert = require('assert');",
    same="assert.deepStrictEqual",
    top="test",
)
MODULE = "export const add = (a, b) => a - b;\nexport const fail = () => { throw new TypeError('deep down'); };\n"
PACKAGE = '{"name": "app", "version": "1.0.0", "scripts": {"test": "jest", "lint": "eslint ."}}\n'
_JEST_FILES = {"package.json": PACKAGE, "calc.js": CALC, "calc.test.js": JEST, "fine.test.js": "test('fine', () => {});\n"}
_JEST_REPORT = "--json --outputFile=report.json"
_VITEST_REPORT = "--reporter=default --reporter=json --outputFile.json=report.json"
_NODE_REPORT = "--test-reporter=junit --test-reporter-destination=report.xml"
_ESLINT = {
    "package.json": PACKAGE,
    "eslint.config.js": "module.exports = [{ files: ['**/*.js'], rules: { 'no-unused-vars': 'error', 'no-undef': 'error', eqeqeq: 'warn', 'no-debugger': 'error' } }];\n",
    "src/a.js": "const a = 1;\nfunction f(x) {\n  debugger;\n  if (x == 2) return unknown;\n}\n",
    "src/b.js": "const = 3;\n",
}
_TS = {
    "tsconfig.json": '{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2022", "types": []}, "include": ["src"]}\n',
    "src/a.ts": "export function f(a: number): string {\n  return a;\n}\nf('x', 2);\nconst { gone } = { here: 1 };\n",
    "src/b.ts": "import { nothing } from './a';\nimport x from 'no-such-module';\n",
}
_TS_BUILT = [
    told("src/a.ts:2:3 TS2322", "src/a.ts", 2), told("src/a.ts:4:8 TS2554", "src/a.ts", 4), told("src/a.ts:5:9 TS2339", "src/a.ts", 5),
    told("src/a.ts:5:20 TS2353", "src/a.ts", 5), told("src/b.ts:1:10 TS2305", "src/b.ts", 1), told("src/b.ts:2:15 TS2307", "src/b.ts", 2),
]  # fmt: skip
_RETRY = "jest.retryTimes(2, { logErrorsBeforeRetry: true });\nlet n = 0;\ntest('second time', () => { n += 1; expect(n).toBe(2); });\ntest('never', () => { expect(1).toBe(2); });\n"


def _case(name: str, run: str, files: dict[str, str], report: object = None, cause: str = "test", **more: object) -> Case:
    return Case(name, run, cause, files, report, javascript=True, **more)  # type: ignore[arg-type]


CASES = (
    _case("jest", f"jest {_JEST_REPORT}", _JEST_FILES, reports.jest),
    _case("jest-verbose-color", f"jest --verbose --color {_JEST_REPORT}", _JEST_FILES, reports.jest),
    _case("jest-npm", f"npm test -- {_JEST_REPORT}", _JEST_FILES, reports.jest),
    _case("jest-suite", f"jest {_JEST_REPORT}", {**_JEST_FILES, "broken.test.js": "const x = require('./gone');\ntest('x', () => {});\n", "syntax.test.js": "test('x', () => {\n"}, reports.jest),
    _case("jest-one-file", f"jest calc {_JEST_REPORT}", _JEST_FILES, reports.jest),
    _case("jest-retries", f"jest {_JEST_REPORT}", {"package.json": PACKAGE, "retry.test.js": _RETRY}, reports.jest),
    _case("jest-snapshot", f"jest --ci {_JEST_REPORT}", {"package.json": PACKAGE, "snap.test.js": "test('renders', () => { expect({ a: 2 }).toMatchSnapshot(); });\n", "__snapshots__/snap.test.js.snap": "// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing\n\nexports[`renders 1`] = `\n{\n  \"a\": 1,\n}\n`;\n"}, reports.jest),
    _case("vitest", f"vitest run {_VITEST_REPORT}", {"package.json": PACKAGE, "calc.mjs": MODULE, "calc.test.mjs": VITEST}, reports.jest),
    _case("vitest-verbose", f"vitest run {_VITEST_REPORT.replace('default', 'verbose')}", {"package.json": PACKAGE, "calc.mjs": MODULE, "calc.test.mjs": VITEST}, reports.jest, env={"FORCE_COLOR": "1"}),
    _case("vitest-suite", f"vitest run {_VITEST_REPORT}", {"package.json": PACKAGE, "broken.test.mjs": "import { x } from './gone.mjs';\nimport { test } from 'vitest';\ntest('x', () => x);\n"}, reports.jest),
    _case("mocha", "mocha test", {"package.json": PACKAGE, "calc.js": CALC, "test/calc.js": MOCHA}, reports.mocha, report_run="mocha test --reporter json > report.json || true"),
    _case("mocha-dot-hooks", "mocha --reporter dot test", {"package.json": PACKAGE, "test/a.js": "describe('hooks', () => { before(() => { throw new Error('cannot'); }); it('x', () => {}); });\ndescribe('slow', () => { it('waits', (done) => {}).timeout(50); });\n"}, reports.mocha, report_run="mocha test --reporter json > report.json || true"),
    _case("node-spec", f"node --test --test-reporter=spec --test-reporter-destination=stdout {_NODE_REPORT} test/", {"package.json": PACKAGE, "calc.js": CALC, "test/calc.test.js": NODE}, reports.node_junit),
    _case("node-tap", f"node --test --test-reporter=tap --test-reporter-destination=stdout {_NODE_REPORT} test/", {"package.json": PACKAGE, "calc.js": CALC, "test/calc.test.js": NODE}, reports.node_junit),
    _case("node-junit-printed", f"node --test --test-reporter=junit --test-reporter-destination=stdout {_NODE_REPORT} test/", {"package.json": PACKAGE, "calc.js": CALC, "test/calc.test.js": NODE}, reports.node_junit),
    _case("eslint", "eslint .", _ESLINT, reports.eslint, "lint", report_run="eslint . --format json > report.json || true"),
    _case("eslint-npm", "npm run lint", _ESLINT, reports.eslint, "lint", report_run="eslint . --format json > report.json || true", env={"FORCE_COLOR": "1"}),
    _case("tsc", "tsc -p . --pretty false", _TS, None, "types", built=_TS_BUILT),
    _case("tsc-pretty", "tsc -p . --pretty", _TS, None, "types", built=_TS_BUILT),
    _case("prettier", "prettier --check src", {"src/a.js": "const   a = {b:1}\n", "src/b.js": "const b = 1;\n", "src/c.ts": "let x:number=1\n"}, reports.lines("report.txt", "{} format"), "format", report_run="prettier --list-different src > report.txt || true"),
    _case("npm-missing", "npm install --no-audit", {"package.json": '{"name": "app", "version": "1.0.0", "dependencies": {"an-unlikely-package-name-4711": "^1.0.0"}}\n'}, None, "dependency", built=[told("an-unlikely-package-name-4711")]),
    _case("npm-version", "npm install --no-audit", {"package.json": '{"name": "app", "version": "1.0.0", "dependencies": {"semver": "^999.0.0"}}\n'}, None, "dependency", built=[told("semver@^999.0.0")]),
    _case("npm-conflict", "npm install --no-audit --dry-run", {"package.json": '{"name": "app", "version": "1.0.0", "dependencies": {"react": "17.0.2", "react-dom": "18.2.0"}}\n'}, None, "dependency", built=[told("react")]),
    _case("npm-stale-lock", "npm ci", {"package.json": '{"name": "app", "version": "1.0.0", "dependencies": {"semver": "7.6.0"}}\n', "package-lock.json": '{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {"": {"name": "app", "version": "1.0.0"}}}\n'}, None, "dependency", built=[told("package-lock.json")]),
    _case("node-heap", "node --max-old-space-size=20 eat.js", {"eat.js": "const a = [];\nfor (;;) a.push(new Array(1000).fill({}));\n"}, None, "out-of-memory"),
)  # fmt: skip
