"""The shapes of workflow and action files.

Follows GitHub's published schema (`workflow-v1.0.json` and `action-v1.0.json` of its language services), but is more tolerant
if a key does not change what a job runs: events, permissions, concurrency and the like may hold anything.
"""

from __future__ import annotations

from agent.ci.workflows.shapes import Availability, Shape

# Which contexts are available for which key: the table "Context availability" of GitHub's documentation.
_START = frozenset({"github", "inputs", "vars"})
_PLANNED = _START | {"needs"}
_JOB = _PLANNED | {"strategy", "matrix"}
_RUNNING = _JOB | {"secrets", "steps", "job", "runner", "env"}
_COMPOSITE = frozenset({"github", "inputs", "strategy", "matrix", "steps", "job", "runner", "env"})
_STRATEGY_PLACE, _JOB_PLACE, _RUN_PLACE = Availability(_PLANNED), Availability(_JOB), Availability(_JOB | {"env"})
_STEP_PLACE, _COMPOSITE_PLACE = Availability(_RUNNING, hashing=True), Availability(_COMPOSITE, hashing=True)
_ACTION_INPUTS = Availability(frozenset({"inputs"}))

_ANY = Shape(anything=True, template=Availability(_RUNNING | {"jobs"}, hashing=True))
_LATER = Shape(later=True)
_LITERAL = Shape(text=True)
_FILLED = Shape(filled=True)
_DESCRIBED = {"description": _LITERAL, "deprecationMessage": _LITERAL}


def _text(place: Availability) -> Shape:
    return Shape(text=True, template=place)


def _texts(place: Availability) -> Shape:
    """A mapping of names to text."""
    return Shape(others=_text(place))


def _variables(place: Availability) -> Shape:
    """Variables of an environment, or an expression that gives them all."""
    return Shape(others=_text(place), template=place)


def _filled(place: Availability) -> Shape:
    return Shape(filled=True, template=place)


def _word(place: Availability | None) -> Shape:
    return Shape(text=True, number=True, flag=True, template=place)


def _flag(place: Availability) -> Shape:
    return Shape(flag=True, template=place)


def _number(place: Availability) -> Shape:
    return Shape(number=True, template=place)


_DEFAULTS = Shape(keys={"run": Shape(keys={"shell": _FILLED, "working-directory": _FILLED})})
_JOB_DEFAULTS = Shape(keys={"run": Shape(keys={"shell": _filled(_RUN_PLACE), "working-directory": _filled(_RUN_PLACE)})})

_CONTAINER_KEYS = {
    "image": _filled(_JOB_PLACE),
    "options": _text(_JOB_PLACE),
    "env": _texts(Availability(_RUNNING)),
    "ports": Shape(items=_filled(_JOB_PLACE), template=_JOB_PLACE),
    "volumes": Shape(items=_filled(_JOB_PLACE), template=_JOB_PLACE),
    "credentials": _ANY,
}
_CONTAINER = Shape(text=True, template=_JOB_PLACE, keys=_CONTAINER_KEYS)
_SERVICE_KEYS = {**_CONTAINER_KEYS, "entrypoint": _text(_JOB_PLACE), "command": _text(_JOB_PLACE)}
_SERVICE = Shape(filled=True, template=_JOB_PLACE, keys=_SERVICE_KEYS)

_CELL = Shape(anything=True, template=_STRATEGY_PLACE)
_FILTER = Shape(template=_STRATEGY_PLACE, items=Shape(template=_STRATEGY_PLACE, others=_CELL))
_MATRIX = Shape(
    template=_STRATEGY_PLACE,
    keys={"include": _FILTER, "exclude": _FILTER},
    others=Shape(template=_STRATEGY_PLACE, items=_CELL),
)
_STRATEGY = Shape(
    template=_STRATEGY_PLACE,
    keys={"fail-fast": _flag(_STRATEGY_PLACE), "max-parallel": _number(_STRATEGY_PLACE), "matrix": _MATRIX},
)


def _step_keys(place: Availability) -> dict[str, Shape]:
    return {
        "name": _text(place),
        "id": _FILLED,
        "if": _text(Availability(place.contexts - {"secrets"}, hashing=True, condition=True)),
        "env": _variables(place),
        "continue-on-error": _flag(place),
    }


# The key `run` or `uses` decides which shape a step has.
_STEP_KEYS = {**_step_keys(_STEP_PLACE), "timeout-minutes": _number(_STEP_PLACE)}
RUN_STEP = Shape(
    keys={**_STEP_KEYS, "run": _text(_STEP_PLACE), "shell": _FILLED, "working-directory": _text(_STEP_PLACE)}, required=("run",)
)
USES_STEP = Shape(keys={**_STEP_KEYS, "uses": _FILLED, "with": _texts(_STEP_PLACE)}, required=("uses",))
_COMPOSITE_KEYS = _step_keys(_COMPOSITE_PLACE)
COMPOSITE_RUN_STEP = Shape(
    keys={**_COMPOSITE_KEYS, **dict.fromkeys(("run", "shell", "working-directory"), _text(_COMPOSITE_PLACE))},
    required=("run", "shell"),
)
COMPOSITE_USES_STEP = Shape(keys={**_COMPOSITE_KEYS, "uses": _FILLED, "with": _texts(_COMPOSITE_PLACE)}, required=("uses",))

_ANY_JOB_KEYS = {
    "name": _text(_JOB_PLACE),
    "needs": Shape(filled=True, items=_FILLED),
    "if": _text(Availability(_PLANNED, condition=True, of_jobs=True)),
    "strategy": _STRATEGY,
    "permissions": _ANY,
    "concurrency": _ANY,
}
_LABELS = Shape(filled=True, template=_JOB_PLACE, items=_filled(_JOB_PLACE))
_RUNS_ON = Shape(
    filled=True, template=_JOB_PLACE, items=_filled(_JOB_PLACE), keys={"group": _filled(_JOB_PLACE), "labels": _LABELS}
)
# The key `uses` decides which shape a job has.
JOB = Shape(
    keys={
        **_ANY_JOB_KEYS,
        "runs-on": _RUNS_ON,
        "timeout-minutes": _number(_JOB_PLACE),
        "cancel-timeout-minutes": _number(_JOB_PLACE),
        "continue-on-error": _flag(_JOB_PLACE),
        "container": _CONTAINER,
        "services": Shape(others=_SERVICE),
        "env": _variables(Availability(_JOB | {"secrets"})),
        "environment": _ANY,
        "outputs": _texts(Availability(_RUNNING)),
        "defaults": _JOB_DEFAULTS,
        "steps": Shape(items=Shape(others=_LATER)),
        "snapshot": _ANY,
    },
    required=("runs-on",),
)
CALLING_JOB = Shape(
    keys={
        **_ANY_JOB_KEYS,
        "uses": _FILLED,
        "with": Shape(others=_word(_JOB_PLACE)),
        "secrets": Shape(words=frozenset({"inherit"}), others=_word(Availability(_JOB | {"secrets"}))),
    },
    required=("uses",),
)

_INPUT_TYPES = frozenset({"string", "boolean", "number"})
_CALL = Shape(
    nothing=True,
    keys={
        "inputs": Shape(
            nothing=True,
            others=Shape(
                keys={
                    "type": Shape(words=_INPUT_TYPES),
                    "required": Shape(flag=True),
                    "default": _word(Availability(_START)),
                    **_DESCRIBED,
                },
                required=("type",),
            ),
        ),
        "secrets": _ANY,
        "outputs": Shape(
            nothing=True,
            others=Shape(keys={"value": _text(Availability(_START | {"jobs"})), "description": _LITERAL}, required=("value",)),
        ),
    },
)
_DISPATCH = Shape(
    nothing=True,
    keys={
        "inputs": Shape(
            nothing=True,
            others=Shape(
                nothing=True,
                keys={
                    "type": Shape(words=_INPUT_TYPES | {"choice", "environment"}),
                    "required": Shape(flag=True),
                    "default": _word(None),
                    "options": Shape(items=_LITERAL),
                    **_DESCRIBED,
                },
            ),
        )
    },
)
WORKFLOW = Shape(
    keys={
        "on": Shape(
            filled=True,
            items=_FILLED,
            keys={"workflow_call": _CALL, "workflow_dispatch": _DISPATCH},
            others=Shape(anything=True),
        ),
        "name": _LITERAL,
        "run-name": _text(Availability(_START)),
        "defaults": _DEFAULTS,
        "env": _variables(Availability(_START | {"secrets"})),
        "permissions": _ANY,
        "concurrency": _ANY,
        "jobs": Shape(others=Shape(others=_LATER)),
    },
    required=("on", "jobs"),
)

_INPUT_DEFAULT = Availability(frozenset({"github", "strategy", "matrix", "job", "runner"}), hashing=True)
ACTION = Shape(
    keys={
        "name": _FILLED,
        "description": _LITERAL,
        "author": _LITERAL,
        "inputs": Shape(
            others=Shape(
                nothing=True,
                keys={"default": _text(_INPUT_DEFAULT), "required": _ANY, **_DESCRIBED},
                others=_ANY,
            )
        ),
        "outputs": Shape(others=Shape(keys={"value": _text(Availability(_COMPOSITE)), "description": _LITERAL})),
        "branding": _ANY,
        "runs": Shape(
            keys={
                "using": _FILLED,
                "main": _FILLED,
                "image": _FILLED,
                "steps": Shape(items=Shape(others=_LATER)),
                "env": _texts(_ACTION_INPUTS),
                "args": Shape(items=_text(_ACTION_INPUTS)),
                **{f"{when}{what}": _LITERAL for when in ("pre", "post") for what in ("", "-if", "-entrypoint")},
                "entrypoint": _FILLED,
            },
            required=("using",),
        ),
    },
    required=("runs",),
)
