"""Which shapes workflow and action files have.

After GitHub's published schema (`workflow-v1.0.json` and `action-v1.0.json` of its language services), more tolerant where a
key does not change what a job runs: events, permissions, concurrency and the like may hold anything.
"""

from __future__ import annotations

from agent.ci.workflows.shapes import Shape

_ANY = Shape(anything=True, template=True)
_TEXT = Shape(text=True, template=True)
_LITERAL = Shape(text=True)
_FILLED = Shape(filled=True)
_FLAG = Shape(flag=True, template=True)
_NUMBER = Shape(number=True, template=True)
_WORD = Shape(text=True, number=True, flag=True, template=True)
_TEXTS = Shape(others=_TEXT)  # a mapping of names to text
_FILLED_ITEMS = Shape(filled=True, template=True, items=Shape(filled=True, template=True))

_DEFAULTS = Shape(keys={"run": Shape(keys={"shell": _FILLED, "working-directory": _FILLED})})
_JOB_DEFAULTS = Shape(
    keys={
        "run": Shape(keys={"shell": Shape(filled=True, template=True), "working-directory": Shape(filled=True, template=True)})
    }
)

_CONTAINER_KEYS = {
    "image": Shape(filled=True, template=True),
    "options": _TEXT,
    "env": _TEXTS,
    "ports": Shape(items=Shape(filled=True, template=True), template=True),
    "volumes": Shape(items=Shape(filled=True, template=True), template=True),
    "credentials": _ANY,
}
_CONTAINER = Shape(text=True, template=True, keys=_CONTAINER_KEYS)
_SERVICE = Shape(filled=True, template=True, keys={**_CONTAINER_KEYS, "entrypoint": _TEXT, "command": _TEXT})

_FILTER = Shape(template=True, items=Shape(template=True, others=_ANY))
_MATRIX = Shape(template=True, keys={"include": _FILTER, "exclude": _FILTER}, others=Shape(template=True, items=_ANY))
_STRATEGY = Shape(template=True, keys={"fail-fast": _FLAG, "max-parallel": _NUMBER, "matrix": _MATRIX})

_STEP_KEYS = {"name": _TEXT, "id": _FILLED, "if": _TEXT, "env": _TEXTS, "continue-on-error": _FLAG, "timeout-minutes": _NUMBER}
# Which of the two a step is, is said by whether it has `run` or `uses`.
RUN_STEP = Shape(keys={**_STEP_KEYS, "run": _TEXT, "shell": _FILLED, "working-directory": _TEXT}, required=("run",))
USES_STEP = Shape(keys={**_STEP_KEYS, "uses": _FILLED, "with": _TEXTS}, required=("uses",))
_COMPOSITE_KEYS = {key: shape for key, shape in _STEP_KEYS.items() if key != "timeout-minutes"}
COMPOSITE_RUN_STEP = Shape(
    keys={**_COMPOSITE_KEYS, "run": _TEXT, "shell": _TEXT, "working-directory": _TEXT}, required=("run", "shell")
)
COMPOSITE_USES_STEP = Shape(keys={**_COMPOSITE_KEYS, "uses": _FILLED, "with": _TEXTS}, required=("uses",))

_ANY_JOB_KEYS = {
    "name": _TEXT,
    "needs": Shape(filled=True, items=_FILLED),
    "if": _TEXT,
    "strategy": _STRATEGY,
    "permissions": _ANY,
    "concurrency": _ANY,
}
# Which of the two a job is, is said by whether it has `uses`.
JOB = Shape(
    keys={
        **_ANY_JOB_KEYS,
        "runs-on": Shape(
            filled=True, template=True, items=_FILLED_ITEMS, keys={"group": _FILLED_ITEMS, "labels": _FILLED_ITEMS}
        ),
        "timeout-minutes": _NUMBER,
        "cancel-timeout-minutes": _NUMBER,
        "continue-on-error": _FLAG,
        "container": _CONTAINER,
        "services": Shape(others=_SERVICE),
        "env": _TEXTS,
        "environment": _ANY,
        "outputs": _TEXTS,
        "defaults": _JOB_DEFAULTS,
        "steps": Shape(items=Shape(others=_ANY)),
        "snapshot": _ANY,
    },
    required=("runs-on",),
)
CALLING_JOB = Shape(
    keys={
        **_ANY_JOB_KEYS,
        "uses": _FILLED,
        "with": Shape(others=_WORD),
        "secrets": Shape(words=frozenset({"inherit"}), others=_WORD),
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
                    "default": _WORD,
                    "description": _LITERAL,
                    "deprecationMessage": _LITERAL,
                },
                required=("type",),
            ),
        ),
        "secrets": _ANY,
        "outputs": Shape(nothing=True, others=Shape(keys={"value": _TEXT, "description": _LITERAL}, required=("value",))),
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
                    "default": Shape(text=True, number=True, flag=True),
                    "description": _LITERAL,
                    "deprecationMessage": _LITERAL,
                    "options": Shape(items=_LITERAL),
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
        "run-name": _TEXT,
        "defaults": _DEFAULTS,
        "env": _TEXTS,
        "permissions": _ANY,
        "concurrency": _ANY,
        "jobs": Shape(others=Shape(others=_ANY)),
    },
    required=("on", "jobs"),
)

ACTION = Shape(
    keys={
        "name": _FILLED,
        "description": _LITERAL,
        "author": _LITERAL,
        "inputs": Shape(
            others=Shape(
                nothing=True,
                keys={"default": _TEXT, "required": _ANY, "description": _LITERAL, "deprecationMessage": _LITERAL},
                others=_ANY,
            )
        ),
        "outputs": Shape(others=Shape(keys={"value": _TEXT, "description": _LITERAL})),
        "branding": _ANY,
        "runs": Shape(
            keys={
                "using": _FILLED,
                "main": _FILLED,
                "image": _FILLED,
                "steps": Shape(items=Shape(others=_ANY)),
                "env": _TEXTS,
                "args": Shape(items=_TEXT),
                **{f"{when}{what}": _TEXT for when in ("pre", "post") for what in ("", "-if", "-entrypoint")},
                "entrypoint": _FILLED,
            },
            required=("using",),
        ),
    },
    required=("runs",),
)
