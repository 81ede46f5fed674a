"""How the user wants code to be written and shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Autonomy = Literal["full", "review-repairs", "review-all"]


@dataclass(frozen=True, slots=True)
class Wish:
    """How the user wants it. A profile sets what the user did not."""

    design: bool = True
    yes: bool = False
    candidates: int = 1
    decode: Literal["greedy", "sample"] = "greedy"
    temperature: float = 0.7
    blind_tests: bool = True
    adversarial: bool = True
    critic: bool = True
    debugger: bool = True
    memory: bool = False
    strategies: int | None = None
    autonomy: Autonomy = "full"
    retry: bool = True
    form: Literal["module", "function", "script"] = "module"
    clean_doc: bool = False
    tests_shown: bool = True
    code_only: bool = False  # on standard output
    out: Path | None = None
    streams: bool = False  # events and result as lines of JSON on standard output
