"""Import statements are edited as text: the rest of the file stays as it is."""

import pytest

from agent.proposers.tools.imports import (
    Import,
    add,
    attributes,
    make_local,
    names_taken,
    read_import,
    redirect,
    rename_module,
    replace_attribute,
)

OWN = {"pkg"}


@pytest.mark.parametrize(
    ("source", "wanted", "expected"),
    [
        ("x = os.sep\n", Import("os"), "import os\n\nx = os.sep\n"),
        ("def f():\n    pass\n", Import("os"), "import os\n\n\ndef f():\n    pass\n"),
        ('"""Doc."""\n\nx = 1\n', Import("os"), '"""Doc."""\n\nimport os\n\nx = 1\n'),
        ("#!/usr/bin/env python\n# ours\nx = 1\n", Import("os"), "#!/usr/bin/env python\n# ours\n\nimport os\n\nx = 1\n"),
        ("import abc\nimport sys\n", Import("os"), "import abc\nimport os\nimport sys\n"),
        ("import sys\nfrom abc import ABC\n", Import("os"), "import os\nimport sys\nfrom abc import ABC\n"),
        (
            "from __future__ import annotations\nx = 1\n",
            Import("os"),
            "from __future__ import annotations\n\nimport os\nx = 1\n",
        ),
        ("from pkg import a\n", Import("os"), "import os\n\nfrom pkg import a\n"),
        ("import os\n\nfrom pkg import a\n", Import("yaml"), "import os\n\nimport yaml\n\nfrom pkg import a\n"),
        ("import os\n", Import("pkg.b", "c"), "import os\n\nfrom pkg.b import c\n"),
        ("from typing import Any, cast\n", Import("typing", "Optional"), "from typing import Any, Optional, cast\n"),
        ("from a import b  # why\n", Import("a", "c"), "from a import b  # why\nfrom a import c\n"),
        ("import os\r\nx = 1\r\n", Import("re"), "import os\r\nimport re\r\nx = 1\r\n"),
        ("from x import y as z\n", Import("x", "a"), "from x import a, y as z\n"),
        ("import numpy\n", Import("numpy", alias="np"), "import numpy\nimport numpy as np\n"),
        ("import os\n", Import("os"), None),
        ("def (:\n", Import("os"), None),
    ],
)
def test_an_import_comes_where_isort_would_put_it(source: str, wanted: Import, expected: str | None) -> None:
    assert add(source, wanted, OWN) == expected


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        ("from collections import Mapping\nx = 1\n", 1, "from collections.abc import Mapping\nx = 1\n"),
        ("from collections import Mapping as M  # ü\n", 1, "from collections.abc import Mapping as M\n"),
        (
            "from collections import Mapping, deque  # both\n",
            1,
            "from collections import deque  # both\nfrom collections.abc import Mapping\n",
        ),
        (
            "from collections import (\n    Mapping,  # moved\n    deque,  # stays\n)\n",
            2,
            "from collections import (\n    deque,  # stays\n)\nfrom collections.abc import Mapping\n",
        ),
        (
            "try:\n    from collections import Mapping\nexcept ImportError:\n    raise\n",
            2,
            "try:\n    from collections.abc import Mapping\nexcept ImportError:\n    raise\n",
        ),
        ("from collections import deque\n", 1, None),
        ("x = 1; from collections import Mapping\n", 1, None),
    ],
)
def test_one_name_is_taken_from_elsewhere(source: str, line: int, expected: str | None) -> None:
    assert redirect(source, line, "collections", "Mapping", Import("collections.abc", "Mapping")) == expected


def test_a_module_is_called_by_its_new_name() -> None:
    assert rename_module("from old.util import a  # k\n", "old.util", "new.tools") == "from new.tools import a  # k\n"
    assert rename_module("import util\nutil.a()\n", "util", "pkg.util") == "from pkg import util\nutil.a()\n"
    assert rename_module("import Queue\n", "Queue", "queue") == "import queue as Queue\n"
    assert rename_module("import other\n", "util", "pkg.util") is None


def test_an_attribute_is_read_of_another_module() -> None:
    source = "import collections\n\nis_map = isinstance({}, collections.Mapping)  # ü\nd = collections.deque()\n"
    assert replace_attribute(source, "collections", "Mapping", "collections.abc") == source.replace(
        "collections.Mapping", "collections.abc.Mapping"
    ).replace("import collections\n", "import collections\nimport collections.abc\n")


def test_an_import_moves_into_the_functions_that_use_it() -> None:
    source = "from b import B\n\n\ndef f():\n    '''Doc.'''\n    return B()\n\n\nclass C:\n    def g(self):\n        return B\n"
    made = make_local(source, 1, "b", "B")
    assert made == (
        "def f():\n    '''Doc.'''\n    from b import B\n    return B()\n\n\n"
        "class C:\n    def g(self):\n        from b import B\n        return B\n"
    )
    assert make_local("from b import B\n\nX = B()\n", 1, "b", "B") is None
    assert make_local("from b import B\n\ndef f(x=B): pass\n", 1, "b", "B") is None


def test_what_a_file_takes_from_a_module() -> None:
    assert names_taken("from m import a, b as c\n", 1, "m") == ("a", "b")
    assert names_taken("import m\nm.x(); m.y.z\n", 1, "m") == ("x", "y")
    assert attributes("json.loads(json.dumps(1))", "json") == ("loads", "dumps")


def test_only_an_import_is_read_as_one() -> None:
    assert read_import("from a.b import c as d") == Import("a.b", "c", "d")
    assert read_import("import a.b") == Import("a.b")
    assert read_import("import os; os.remove('x')") is None
