"""Imports are added where the module has its own, or below what stands at its top."""

from __future__ import annotations

import pytest

from agent.source.imports import with_imports


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(): ...\n", "import os\n\n\ndef f(): ...\n"),
        ("# Licence: MIT\n\nx = 1\n", "# Licence: MIT\n\nimport os\n\nx = 1\n"),
        ("# Licence: MIT\nimport re\n", "# Licence: MIT\n\nimport os\nimport re\n"),
        ("# Adds.\ndef f(): ...\n", "import os\n\n\n# Adds.\ndef f(): ...\n"),
        ("#!/usr/bin/python\n# Adds.\ndef f(): ...\n", "#!/usr/bin/python\n\nimport os\n\n\n# Adds.\ndef f(): ...\n"),
        (
            "#!/usr/bin/python\n# -*- coding: latin-1 -*-\ndef f(): ...\n",
            "#!/usr/bin/python\n# -*- coding: latin-1 -*-\n\nimport os\n\n\ndef f(): ...\n",
        ),
        ("# Adds.\r\nx = 1\r\n", "import os\r\n\r\n# Adds.\r\nx = 1\r\n"),
        ('# Licence: MIT\n"""Sums."""\nx = 1\n', '# Licence: MIT\n"""Sums."""\n\nimport os\n\nx = 1\n'),
    ],
)
def test_an_import_goes_below_the_head_of_a_module(before: str, after: str) -> None:
    assert with_imports(before, ["import os"]) == after
