"""The options of `selfheal solve`, of `POST /api/v1/solve` and of the Python API: names, bounds, defaults and help, once.

Imports nothing of the engine, because the command line and the web process start without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

Decode = Literal["greedy", "sample"]
Form = Literal["module", "function", "script"]


def _about(description: str, **more: object) -> dict[str, object]:
    return {"description": description, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOptions:
    """How code is written and shown.

    Pydantic reads the metadata of the fields (`app.service.solving.SolveIn`): `description`, and the bounds `ge` and `le`.
    `flag` is the command line's name, if it is not the field's; a bool with one takes no value.

    Raises `ValueError` for a number out of bounds.
    """

    design: bool = field(default=True, metadata=_about("Draft a signature and examples first.", flag="--design/--no-design"))
    candidates: int = field(default=1, metadata=_about("First answers to choose from.", ge=1, le=16))
    decode: Decode = field(default="greedy", metadata=_about("Decoding of the first answer; further ones are samples."))
    temperature: float = field(default=0.7, metadata=_about("Temperature of samples.", ge=0, le=2))
    iterations: int | None = field(
        default=None,
        metadata=_about(
            "Most rounds in which a model writes code, the first answer included. Default: the setting MAX_ITERATIONS.",
            ge=1,
            le=100,
            flag="--iters",
        ),
    )
    seconds: float | None = field(
        default=None,
        metadata=_about("Time limit in seconds. Default: the setting MAX_SECONDS.", ge=1, le=86_400, flag="--budget"),
    )
    tokens: int | None = field(
        default=None,
        metadata=_about("Limit of model tokens. Default: the setting MAX_TOKENS.", ge=1, le=10**9, flag="--max-tokens"),
    )
    cost: float | None = field(
        default=None,
        metadata=_about(
            "Limit of the model's cost in dollars, if its price is known; 0: none. Default: the setting MAX_COST.",
            ge=0, le=100_000, flag="--max-cost",
        ),
    )  # fmt: skip
    spec_tests: bool = field(default=True, metadata=_about("Tests from the specification, before any code."))
    adversarial: bool = field(default=True, metadata=_about("Tests that try to break the accepted code."))
    critic: bool = field(default=True, metadata=_about("A review of the accepted code."))
    debugger: bool = field(default=True, metadata=_about("A diagnosis with tools, after two failed rounds."))
    memory: bool = field(default=False, metadata=_about("Lessons of your earlier runs."))
    strategies: int | None = field(
        default=None,
        metadata=_about(
            "Ways to ask for a repair in one round. Default: more in later rounds, one for a local model.", ge=1, le=3
        ),
    )
    retry: bool = field(default=True, metadata=_about("A second start, if no answer is accepted or a question is open."))
    form: Form = field(
        default="module", metadata=_about("The module, the function with what it needs, or a script with a command line.")
    )
    clean_doc: bool = field(default=False, metadata=_about("Remove the examples from the docstrings.", flag="--clean-doc"))
    show_tests: bool = field(default=True, metadata=_about("Show and save the tests.", flag="--show-tests/--no-test"))

    def __post_init__(self) -> None:
        for name, known in FIELDS.items():
            value, least, most = getattr(self, name), known.metadata.get("ge"), known.metadata.get("le")
            if value is not None and least is not None and not least <= value <= most:
                raise ValueError(f"{name} must be from {least} to {most}, not {value}")


FIELDS = {each.name: each for each in fields(UserOptions)}


def flag(name: str) -> str:
    """How the command line spells an option: "--candidates", or "--design/--no-design" for a bool without a value."""
    return str(FIELDS[name].metadata.get("flag", f"--{name.replace('_', '-')}"))


def arguments(options: UserOptions) -> list[str]:
    """The arguments of `selfheal solve` for the options that are not the defaults."""
    parts: list[str] = []
    for name, known in FIELDS.items():
        value = getattr(options, name)
        if value == known.default:
            continue
        if not isinstance(value, bool):
            parts += [flag(name), spelled(value)]
        elif "flag" in known.metadata:
            parts.append(flag(name).split("/")[0 if value else 1])
        else:
            parts += [flag(name), "on" if value else "off"]
    return parts


def spelled(value: object) -> str:
    """A value as the command line reads it again, to the last digit."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
