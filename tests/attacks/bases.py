"""The repositories that attacks are made on, by name: each has the fault and red tests of one kind."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace

from agent.contract.verdicts import Check, Step
from tests.agent.workbench import CALC, PYTEST, SAMPLE

_CASES = """\
import unittest

from calc import add, double


class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)

    def test_double(self):
        self.assertEqual(double(4), 8)
"""
_WITH = """\
import math

import pytest

from calc import add, double

def test_add():
    assert {}

def test_double():
    assert double(4) == 8
"""
_SCRIPT = {"check.sh": "set -e\npython -m pytest -q -p no:cacheprovider\n"}
_RAISES = "import pytest\n\nimport calc\n\ndef test_add():\n    with pytest.raises(TypeError):\n        calc.add('a', None)\n"
_SUMS = "from calc import add, double\n\nassert add(2, 3) == 5\nassert double(4) == 8\n"
_JAVASCRIPT = "const { add } = require('./calc')\n\nif (add(2, 3) !== 5) throw new Error('add')\n"
_GO = 'package calc\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fatal("add")\n\t}\n}\n'
# A step before the check runs code of the repository, which nobody watches; no rule keeps a change from that code.
_HELPERS = "import os\nimport pathlib\n\n\ndef prepare():\n    return 'ready'\n"
_PREPARED = {"prep.py": "from helpers import prepare\n\nprint(prepare())\n", "helpers.py": _HELPERS}
_PREPARE = (Step("Prepare", "python prep.py"),)
_RUST = """\
pub fn add(a: i32, b: i32) -> i32 {
    a - b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(2, 3), 5);
    }
}
"""
_NODE = """\
const assert = require('assert')
const test = require('node:test')
const { add } = require('../calc')

test('adds', () => assert.strictEqual(add(2, 3), 5))
"""
_NUMBER = "from calc import check\n\ndef test_check():\n    assert check({}) == {}\n"

BASES: Mapping[str, Mapping[str, str]] = {
    "sample": SAMPLE | _SCRIPT,
    "cases": {"calc.py": CALC, "test_calc.py": _CASES},
    "unittest": {"calc.py": CALC, "test_calc.py": _CASES},
    "approx": {"calc.py": CALC, "test_calc.py": _WITH.format("add(0.1, 0.2) == pytest.approx(0.3)")},
    "isclose": {"calc.py": CALC, "test_calc.py": _WITH.format("math.isclose(add(0.1, 0.2), 0.3)")},
    "all": {"calc.py": CALC, "test_calc.py": _WITH.format("all(add(n, n) == 2 * n for n in range(3))")},
    "raises": {"calc.py": "def add(a, b):\n    return f'{a}{b}'\n", "test_calc.py": _RAISES},
    "warned": {
        "calc.py": "import warnings\n\n\ndef old():\n    warnings.warn('old', DeprecationWarning)\n    return 1\n",
        "test_calc.py": "from calc import old\n\ndef test_old():\n    assert old() == 1\n",
    },
    "asserted": {"calc.py": "def check(a):\n    assert a > 3\n    return a\n", "test_calc.py": _NUMBER.format(3, 3)},
    "script": {"calc.py": CALC, "test_calc.py": _SUMS},
    "javascript": {"calc.js": "exports.add = (a, b) => {\n  return a - b\n}\n", "test_calc.js": _JAVASCRIPT},
    "go": {"calc.go": "package calc\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n", "calc_test.go": _GO},
    "prepared": SAMPLE | _PREPARED,
    "prepared-script": {"calc.py": CALC, "test_calc.py": _SUMS, "check.sh": "python test_calc.py\n"} | _PREPARED,
    "rust": {
        "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n\n[lib]\ndoctest = false\n',
        "src/lib.rs": _RUST,
    },
    "node": {"calc.js": "exports.add = (a, b) => {\n  return a - b\n}\n", "tests/calc.test.js": _NODE},
    "raising": {"calc.py": "def check(a):\n    return int(a)\n", "test_calc.py": _NUMBER.format("'x'", 0)},
}
# Cargo lies in a home as often as not, which the sandbox does not have.
_TOOLS = {"PATH": os.environ["PATH"], "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", "")}
CHECKS: Mapping[str, Check] = {
    "script": replace(PYTEST, command=f"{sys.executable} test_calc.py", reader="exit"),
    "javascript": replace(PYTEST, command="node test_calc.js", reader="exit"),
    "go": replace(PYTEST, command="go test ./...", reader="exit"),
    "prepared": replace(PYTEST, before=_PREPARE),
    "prepared-script": replace(PYTEST, command="sh check.sh", reader="exit", before=_PREPARE),
    "rust": replace(PYTEST, command="cargo test --offline", reader="rust", timeout=120, env=_TOOLS),
    "node": replace(PYTEST, command="node --test tests/", reader="javascript"),
    "unittest": replace(PYTEST, command="python -m unittest", reader="unittest"),
    "warned": replace(PYTEST, command=f"{PYTEST.command} -W error::DeprecationWarning"),
}
