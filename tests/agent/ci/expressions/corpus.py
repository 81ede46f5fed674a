"""Expressions to be judged: every operator and function over values of every kind, what must be refused, and random trees.

Left out is what `test_departures.py` shows: the few places where GitHub's runner and its npm package differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

CONTEXTS: dict[str, Any] = {
    "github": {
        "event_name": "push",
        "ref": "refs/heads/main",
        "Actor": "Monalisa",
        "run_number": 17,
        "event": {
            "commits": [
                {"id": "a1", "author": {"name": "Ada"}, "added": ["x.py", "y.py"]},
                {"id": "b2", "author": {"name": "bob"}, "added": []},
                {"ID": "c3", "author": None},
                "loose",
                ["deep", {"id": "d4"}],
            ],
            "pull_request": None,
            "labels": {"first": {"name": "bug"}, "second": {"name": "Help wanted"}, "third": {"other": 1}, "fourth": 5},
        },
    },
    "matrix": {
        "os": "ubuntu-latest",
        "python": 3.1,
        "version": "3.10",
        "flags": [True, False, None, 1, "1", "a"],
        "none": None,
    },
    "env": {"CI": "true", "EMPTY": "", "SPACED": "  12  ", "MixedCase": "Straße ıİ", "quote-d": "it's"},
    "steps": {"build": {"outputs": {"hit": "true", "count": "3"}, "outcome": "success", "conclusion": "success"}},
    "vars": {},
    "numbers": [
        0,
        -0.0,
        1,
        -1.5,
        1e21,
        1e-7,
        123456789012345680000,
        0.1,
        1 / 3,
        5e-324,
        1.7976931348623157e308,
        0.000015258789062500,
    ],
    "nested": [[1, [2, 3]], [], {"a": [{"b": 1}, {"b": 2}]}],
}

PRIMITIVES = [
    "null", "true", "false", "0", "1", "-1", "3.10", "NaN", "Infinity", "-Infinity", "''", "' '", "'0'", "'1'", "'true'",
    "'True'", "'abc'", "'ABC'", "'b'", "'0x10'", "'1e3'", "'ß'", "'SS'", "'ı'", "'I'", "'it''s'", "'é'", "'É'",
]  # fmt: skip
CONTAINERS = ["github.event", "matrix.flags", "nested", "fromJSON('[]')", "fromJSON('{}')", "github.event.commits.*", "vars"]
VALUES = [*PRIMITIVES, *CONTAINERS]

NUMBERS = [
    "0", "00", "007", "1.", ".5", "+.5", "-.5", "1e3", "1E3", "1e+3", "1e-3", "1.5e300", "1e400", "-1e400", "0x1F", "0XFF",
    "0xff", "0o17", "0O7", "0b11", "0B1", "+1", "-1", "-0", "+0", "1e21", "1e20", "123456789.123456789",
    "0.1234567890123456789", "1e-7", "1e-15", "1e-16", "5e-16", "99999999999999999999", "0x1fffffffffffff8",
    "1.0000000000000001", "4.35", "0.000001", "0.0000001", "0.0000152587890625", "1e15", "1e16", "123456789012345678901234",
    "9007199254740993", "0x", "0xg", "0o8", "0b2", "1e", "1e+", ".", "..", "1.2.3", "1_000", "1x", "+", "-", "-+1", "--1",
    "-0x10", "+0x10", "-0o7", "1e1.5", "-NaN", "+Infinity", "Infinityy", "nan", "infinity",
]  # fmt: skip

JSON = [
    "{}", "[]", "null", "true", "false", "1", "-0", "1.50", "1e2", "1e400", '""', '"x"', "[1,2]", "[[]]", "[{}]", '{"a":{}}',
    '{"a":1,"A":2}', '{"A":1,"a":2}', '{"a":1,"a":2}', '{"b":[1,{"c":null}],"a":"x"}', '"\\u00e9\\n\\t\\u0001\\"\\\\/"',
    '"\\/"', '"\\ud83d\\ude00"', '"\x7f"', "[1,[2,[3,[4]]]]", '{"":0}', '{"x.y":1,"x-y":2}', "01", "1.", ".5", "+1", "NaN",
    "Infinity", "-Infinity", "[1,]", '{"a":1,}', "{a:1}", '"x', "[", "}", "nul", "tru", "0x1", '"\\x"', '"\\u12"', "1e", "1a",
    "[1", "2]", '{"a"}', "{1:2}", '"\t"', "[1]]", "", "\ufeff1", "'x'",
]  # fmt: skip

FORMATS = [
    "", "x", "{0}", "{1}", "{2}", "{0}{1}{0}", "{{0}}", "{{{0}}}", "{{", "}}", "{{}}", "{{{{", "a{{b}}c{0}", "{ 0}", "{}",
    "{0", "0}", "}", "{", "{x}", "{-1}", "{0x}", "{0:N2}", "{0,5}", "{00}", "{01}", "{0 }", "}}{{", "{{}", "{}}", "{0}}",
    "{{0}", "{99999999999999999999}", "{0}{3}", "é{0}ß", "'{0}'", "{0}\n{1}",
]  # fmt: skip

REFUSED = [
    "", " ", "()", "(", ")", "[", "]", "github[", "github[]", "github.", "github..ref", ".ref", "github.1", "github.'ref'",
    "github ref", "nosuch", "nosuch.x", "false && nosuch", "nosuch()", "github()", "true()", "'a'[0]", "1[0]", "true.x",
    "'a'.b", "null.x", "1 2", "1 'a'", "1 +1", "1 - 1", "1 * 2", "*", "*.x", "github.**", "github*", "!", "!!", "1 !", "1 ==",
    "== 1", "1 = 1", "1 === 1", "1 !== 1", "1 =! 1", "1 & 1", "1 | 1", "1 &&", "&& 1", "1 &&& 1", "1 ||| 1", "1 && || 1",
    "1 <> 1", "1 =< 1", "'", "'a", "''a'", "'a''", '"a"', "'a' 'b'", "a-b", "github.a+b", "github.ref == 'a", "(1", "1)",
    "((1)", "(1))", "[1]", "{}", "$x", "github.$x", "@", "#", "~1", "`x`", "1;", "1?2:3", "\\", "github\\ref", "github/ref",
    "ünicode", "github.é", "_", "-x", "contains()", "contains('a')", "contains('a','b','c')", "startsWith('a')",
    "endsWith('a')", "endsWith('a','b','c')", "format()", "join()", "join('a','b','c')", "toJSON()", "toJSON(1,2)",
    "fromJSON()", "fromJSON('1','2')", "case()", "case(true)", "case(true,1)", "case(true,1,false,2)", "case(1,2,3)",
    "case('true',2,3)", "case(null,2,3)", "case(vars,2,3)", "case(false,2,'x',3,4)", "success(1)", "always(1)",
    "failure('x')", "cancelled(null)", "contains('a' 'b')", "contains(,'a')", "contains('a',,'b')", "join(,)", "fromJSON('')",
    "fromJSON(' ')", "fromJSON(null)", "fromJSON(vars)", "fromJSON(github.event.commits)", "fromJSON('x') && false",
    "false && true || fromJSON('x')", "format(null, 1)[", "True", "TRUE", "Null", "FALSE", "github.*.", "github.*[",
    "github.[0]", "github.ref.()", "success", "success ()x", "toJSON(github).", "${{ 1 }}", "{{ 1 }}", "github['ref'",
    "github['ref]", "1,2", ",", "format('{0}')", "format('{1}', 1)", "format('{', 1)", "format('}', 1)",
    "github.ref github.ref", "true false", "!=1", "1!", "1 ! = 1",
]  # fmt: skip

ACCEPTED = [
    "github", "GITHUB.REF", "github.Ref", "github.actor", "github['ACTOR']", "github [ 'ref' ]", "github . ref",
    "github.nope", "github.nope.deeper", "github.nope[0].x", "github.ref.x", "github.ref[0]", "github.run_number.x",
    "github.event.pull_request.x", "github.event.commits[0].id", "github.event.commits[2].id", "github.event.commits['1'].id",
    "github.event.commits[''].id", "github.event.commits[null].id", "github.event.commits[true].id",
    "github.event.commits[1.9].id", "github.event.commits[-1]", "github.event.commits[99]", "github.event.commits['x']",
    "github.event.commits[NaN]", "github.event.commits[Infinity]", "github.event.commits[github]",
    "github.event.commits[' 1 '].id", "github.event.commits['0x1'].id", "github.event[github]", "github.event[null]",
    "github[0]", "github[true]", "github.event.commits.length", "github.event.commits.*", "github.event.commits.*.id",
    "github.event.commits.*.author.name", "github.event.commits.*.added", "github.event.commits.*.added[0]",
    "github.event.commits.*.added.*", "github.event.commits.*[0]", "github.event.commits[*].id", "github.event.*",
    "github.event.*.*", "github.event.*.*.name", "github.event.labels.*.name", "github.ref.*", "github.ref.*.x",
    "null || github.nope.*", "(github.event.commits.*)[1]", "(github.event.commits.*).id", "github.event.commits.*.*.*",
    "matrix.flags.*", "matrix.flags.*.x", "nested.*", "nested.*.*", "nested.*.*.*", "nested.*[0]", "nested.*[1][0]",
    "nested.*.a.*.b", "nested[2].a.*.b", "nested.*['a']", "nested.*[null]", "case(true, nested.*, 1)[0]", "env.CI", "env.ci",
    "env['quote-d']", "env.quote-d", "env.MixedCase == 'STRASSE ıİ'", "env.SPACED == 12", "env.EMPTY == 0",
    "env.EMPTY == null", "env.nope == ''", "vars.X == ''", "vars.X == null", "github.true", "github.null.x", "github.NaN",
    "fromJSON('{\"true\":1}').true", "matrix.version == 3.1", "matrix.python == '3.10'", "matrix.version == '3.1'",
    "format('{0}', matrix.python)", "github == github", "github.event == github.event", "github.event != github.event",
    "vars == vars", "github == env", "matrix.flags == matrix.flags", "fromJSON('[]') == fromJSON('[]')",
    "github.event.commits.* == github.event.commits.*", "github < github", "github <= github", "matrix.flags >= matrix.flags",
    "null < null", "null <= null", "null >= null", "null > null", "null == null", "1 == 1 == 1", "1 == 1 == true",
    "3 > 2 > 1", "1 < 2 == true", "true == 1 < 2", "1 < 2 < 3", "1 == 2 != 1", "!1 == 0", "!(1 == 0)", "!!1", "! ! !1",
    "true || false && false", "(true || false) && false", "false && true || true", "0 || '' || null", "1 && 'a' && 'b'",
    "1 && 0 && 'b'", "'' && 1 || 2", "true && fromJSON('1')", "true || fromJSON('x')", "false && fromJSON('x')",
    "false && format('{')", "1 == 1 && 2 == 2 || 3 == 4", "contains('a','b',)", "toJSON(1,)", "success()", "always()",
    "failure()", "cancelled()", "success() && !cancelled()", "SUCCESS()", "Always ( )", "toJSON(github)",
    "toJSON(github.event)", "toJSON(nested)", "toJSON(numbers)", "toJSON(matrix.flags)", "toJSON(env)", "toJSON(vars)",
    "toJSON(github.event.commits.*)", "toJSON(github.event.commits.*.id)", "tojson('é\u2028\t\"\\/')", "TOJSON(NaN)",
    "toJSON(Infinity)", "toJSON(-0)", "fromJSON(toJSON(github)).event.commits[0].id", "fromJSON('[1,2,3]')[1]",
    "fromJSON('{\"A\":{\"b\":3}}').a.B", "fromJSON(1)", "fromJSON(true)", "fromJSON(' 1 ')", "fromJSON('\n[1]\n')",
    "fromJSON(env.CI)", "join(numbers)", "join(numbers, ' ')", "join(nested, ';')", "join(github)",
    "join(matrix.flags, null)", "join(matrix.flags, vars)", "join(matrix.flags, 1)", "join(github.event.commits.*.id, ', ')",
    "join('a', 'b')", "join(null)", "join(1.50)", "contains(github.event.commits.*.id, 'B2')",
    "contains(fromJSON('[\"push\",\"x\"]'), github.event_name)", "contains('ref,tags', 'REF')", "contains(12345, 34)",
    "contains(null, '')", "contains(true, 'RU')", "contains('x', null)", "case(true, 1, 2)", "case(false, 1, 2)",
    "case(false, 1, true, 2, 3)", "case(1 == 1, 'a', fromJSON('1'))", "CASE(1 > 2, github, vars)",
    "format('{0} {1}', github, nested)", "format(1)", "format(null)", "format(true, 1)", "format(vars)", "\n1\r\n\t== 2\n",
    "\t1\n==\r1 ", "1==1&&2==2||3==3", "!true||!false", "github.event_name=='push'&&startsWith(github.ref,'refs/heads/')",
    "'}}'", "'${{ x }}'", "'''x'", "''''", "'a\nb'", "'\u00a0'", "'İ' == 'i'", "'ſ' == 's'", "'ﬀ' == 'FF'", "'😀' < '\uffee'",
    "'a' < 'B'", "'_' < 'a'", "'Z' > 'a'", "'10' < '9'", "10 < '9'", "startsWith('ABC', 'ab')", "endsWith('straße', 'SSE')",
    "startsWith('', '')", "startsWith(123, 12)", "endsWith(null, null)", "endsWith(1.5, '.5')",
]  # fmt: skip


def expressions() -> list[str]:
    return list(
        dict.fromkeys(
            [
                *ACCEPTED,
                *REFUSED,
                *_numbers(),
                *_operators(),
                *_functions(),
                *_edges(),
                *_trees(random.Random(20_26), 1500),
                *_soup(random.Random(4), 1500),
            ]
        )
    )


def _numbers() -> Iterator[str]:
    for text in NUMBERS:
        yield text
        yield f"toJSON({text})"
        yield f"format('{{0}}', {text})"
        yield from (f"'{text}' == {other}" for other in (0, 1, 16, 255, 1000, "'x'", "Infinity"))
        yield f"'{text}' <= 1"
    yield from (f"format('{{0}}', numbers[{at}])" for at in range(len(CONTEXTS["numbers"])))
    yield from (f"numbers[{at}] == '{text}'" for at in (0, 1, 4, 6) for text in NUMBERS)


def _operators() -> Iterator[str]:
    yield from (f"!{value}" for value in VALUES)
    for left, right in product(VALUES, VALUES):
        yield from (f"{left} {operator} {right}" for operator in ("==", "!=", "<", "<=", ">", ">=", "&&", "||"))


def _functions() -> Iterator[str]:
    for name in ("contains", "startsWith", "endsWith", "join", "CONTAINS"):
        yield from (f"{name}({left}, {right})" for left, right in product(VALUES, VALUES))
    for value in VALUES:
        yield f"toJSON({value})"
        yield f"join({value})"
        yield f"format('<{{0}}>', {value})"
        yield f"format({value}, 1)"
        yield f"fromJSON({value})"
        yield f"case({value}, 1, 2)"
        yield f"nested[{value}]"
        yield f'fromJSON(\'{{"":0,"true":1,"abc":2,"3.1":4}}\')[{value}]'
    for text in JSON:
        quoted = text.replace("'", "''") if text.count("'") < 2 else "x"
        yield from (f"fromJSON('{quoted}')", f"toJSON(fromJSON('{quoted}'))", f"format('{{0}}', fromJSON('{quoted}'))")
    for template in FORMATS:
        quoted = template if "'" not in template else template.replace("'", '"')
        yield from (
            f"format('{quoted}'{rest}" for rest in (")", ", 'a')", ", 'a', 2)", ", '{0}', '}', null)", ", nested, github)")
        )


def _edges() -> Iterator[str]:
    """On both sides of the limits of length and depth."""
    for size in (48, 49, 50, 51, 52):
        yield "(" * size + "1" + ")" * size
        yield "!" * size + "1"
        yield "github" + ".x" * size
        yield "github" + "[0]" * size
        yield "github[" * size + "0" + "]" * size
        yield "fromJSON(" * size + "1" + ")" * size
        yield "github.event.commits" + ".*" * size
    for size in (23, 24, 25, 26, 27):
        yield "(1 || " * size + "1" + ")" * size
        yield "(1 && 1 == " * size + "1" + ")" * size
        yield "(0 || 1 && " * size + "1" + ")" * size
        yield "!(" * size + "1" + ")" * size
        yield "(github" + ".x" * size + ")" + ".y" * size
    for size in (20_999, 21_000, 21_001):
        yield "1".ljust(size)
        yield "'" + "x" * (size - 2) + "'"
        yield ("0 || " * size)[: size - size % 5 - 5].ljust(size - 1) + "1"
    yield " || ".join(["0"] * 4000)
    yield " == ".join(["1"] * 500)
    yield "format('{254}'" + ", 1" * 254 + ", 'last')"
    yield f"format('{{253}}'{', 7' * 254})"
    yield f"format('{{0}}'{', 7' * 255})"
    yield f"join(fromJSON('[{','.join(map(str, range(2000)))}]'), '')"


def _trees(chance: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        yield _tree(chance, chance.randrange(1, 6))


def _tree(chance: random.Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(VALUES if chance.random() < 0.6 else ACCEPTED[:90])

    def inner() -> str:
        return _tree(chance, depth - chance.randrange(1, depth + 1))

    match chance.randrange(10):
        case 0:
            return f"!{inner()}"
        case 1 | 2:
            return f"({inner()})"
        case 3 | 4 | 5:
            return (
                f"{inner()}{chance.choice((' ', ''))}{chance.choice(('==', '!=', '<', '<=', '>', '>=', '&&', '||'))} {inner()}"
            )
        case 6:
            return f"({inner()}){chance.choice(('.name', '[0]', '.*', '.id', '[1].x', '.*.b'))}"
        case 7:
            return f"{chance.choice(('contains', 'startsWith', 'endswith', 'JOIN'))}({inner()}, {inner()})"
        case 8:
            return f"format('{chance.choice(('{0}', '{1}-{0}', '{{{0}}}', '{0}{1}{2}'))}', {inner()}, {inner()})"
        case _:
            return f"{chance.choice(('toJSON', 'fromJSON', 'toJSON', 'join'))}({inner()})"


def _soup(chance: random.Random, count: int) -> Iterator[str]:
    """Words in any order: hardly any is an expression."""
    words = [
        *'()[].,*!-+_=&|{}$\\"#@/%^~`;:?',
        "==",
        "&&",
        "||",
        "<=",
        "!=",
        "github",
        "matrix",
        "ref",
        "flags",
        "contains",
        "toJSON",
    ]
    words += ["success", "nope", "1", "0", "'a'", "'", "true", "null", "NaN", "0x", "e1", ".5", " ", " ", "\n", "\t"]
    for _ in range(count):
        yield "".join(chance.choice(words) for _ in range(chance.randrange(1, 9)))
