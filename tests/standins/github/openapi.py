"""The judge of every request to the stand-in and every answer of it: GitHub's own OpenAPI description."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from tests import data
from tests.standins.github.routing import Answer, Call
from tests.standins.github.server import Judge
from tests.standins.github.state import Json

BASE = "https://openapi.test/github"
#: GitHub answers these to any operation, described or not.
ALWAYS_ALLOWED = (304, 401, 403, 404)
#: These parameters may hold slashes although their description does not say so.
SPANNING = {"{path}": ".*", "{ref}": ".+", "{basehead}": ".+", "{branch}": ".+"}


def judge() -> Judge | None:
    """A function from call and answer to what is wrong with them, or None where the description cannot be found."""
    try:
        return load().judge
    except data.DataMissing:
        return None


@functools.cache
def load() -> Description:
    """The description, once per process (it takes about a second)."""
    return Description(data.load(data.OPENAPI))


@dataclass(frozen=True, slots=True)
class Operation:
    template: str
    pattern: re.Pattern[str]
    methods: Json


class Description:
    def __init__(self, document: Json) -> None:
        # Here the description inlines an account as Simple User *and* Enterprise; its own component says either.
        listed = document["paths"]["/app/installations"]["get"]["responses"]["200"]["content"]["application/json"]
        listed["schema"]["items"] = {"$ref": "#/components/schemas/installation"}
        # Here it wants a moment; its own text and the documentation say: a range in the syntax of GitHub's search.
        # https://docs.github.com/rest/actions/workflow-runs#list-workflow-runs-for-a-repository
        del document["components"]["parameters"]["created"]["schema"]["format"]
        # The address of an App's bot, "1+name[bot]@users.noreply.github.com", is none by RFC 5322.
        for role in ("author", "committer"):
            del document["components"]["schemas"]["simple-commit"]["properties"][role]["properties"]["email"]["format"]
        self._document = _as_json_schema({key: document[key] for key in ("paths", "components")})
        self._registry = jsonschema_rs.Registry([(BASE, self._document)], draft=jsonschema_rs.Draft202012)
        self._validators: dict[tuple[str, ...], Any] = {}
        found = [Operation(template, _pattern(template), methods) for template, methods in self._document["paths"].items()]
        self._operations = sorted(found, key=lambda operation: (operation.template.count("{"), -len(operation.template)))

    def judge(self, call: Call, answer: Answer) -> list[str]:
        """What GitHub's description does not allow about a call and its answer; empty when all is well."""
        method = call.method.lower()
        for operation in self._operations:
            if method in operation.methods and operation.pattern.match(call.path):
                where = ("paths", operation.template, method)
                described = operation.methods[method]
                # A request that was refused may well have been wrong: that is what the refusal says.
                asked = self._request(call, described, where) if answer.status < 400 else []
                return asked + self._answer(answer, described, where)
        return ["no such operation in GitHub's description"]

    def _request(self, call: Call, described: Json, where: tuple[str, ...]) -> list[str]:
        wrong, known = [], set()
        for index, raw in enumerate(described.get("parameters", [])):
            parameter, place = self._follow(raw, (*where, "parameters", str(index)))
            if parameter["in"] != "query":
                continue
            name = parameter["name"]
            known.add(name)
            if name in call.query:
                value = _typed(call.query[name], parameter["schema"])
                wrong += [f"query {name}: {problem}" for problem in self._problems((*place, "schema"), value)]
            elif parameter.get("required"):
                wrong.append(f"query {name} is missing")
        wrong += [f"query {name} is not described" for name in call.query if name not in known]
        body, place = self._follow(described.get("requestBody", {}), (*where, "requestBody"))
        schema = body.get("content", {}).get("application/json")
        if call.body and schema is None:
            return [*wrong, "a request body where none is described"]
        if schema is None or (not call.body and not body.get("required")):
            return wrong
        place = (*place, "content", "application/json", "schema")
        value = json.loads(call.body or b"null")
        wrong += [f"request {problem}" for problem in self._problems(place, value)]
        fields, _ = self._follow(schema["schema"], place)
        if "properties" in fields and not fields.get("additionalProperties") and isinstance(value, dict):
            # GitHub ignores unknown fields; we do not want to send any.
            wrong += [f"request: unknown field {name}" for name in value if name not in fields["properties"]]
        return wrong

    def _answer(self, answer: Answer, described: Json, where: tuple[str, ...]) -> list[str]:
        status = str(answer.status)
        if status not in described["responses"]:
            return [] if answer.status in ALWAYS_ALLOWED else [f"status {status} is not described"]
        response, place = self._follow(described["responses"][status], (*where, "responses", status))
        if "application/json" not in response.get("content", {}) or not answer.body:
            return []
        if "json" not in answer.headers.get("content-type", ""):
            return []
        place = (*place, "content", "application/json", "schema")
        return [f"answer {problem}" for problem in self._problems(place, json.loads(answer.body))]

    def _follow(self, node: Json, place: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        while "$ref" in node:
            place = tuple(part.replace("~1", "/").replace("~0", "~") for part in node["$ref"].removeprefix("#/").split("/"))
            node = self._document
            for part in place:
                node = node[part]
        return node, place

    def _problems(self, place: tuple[str, ...], value: object) -> list[str]:
        if place not in self._validators:
            pointer = "/".join(part.replace("~", "~0").replace("/", "~1") for part in place)
            reference = f"{BASE}#/{pointer}".replace("{", "%7B").replace("}", "%7D")
            self._validators[place] = jsonschema_rs.Draft202012Validator(
                {"$ref": reference}, registry=self._registry, validate_formats=True
            )
        errors = list(self._validators[place].iter_errors(value))
        return [f"{'/'.join(map(str, error.instance_path))}: {error.message[-200:]}" for error in errors[:6]]


def _pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"(\{[^}]+\})", template)
    pattern = "".join(SPANNING.get(p, "[^/]+") if p.startswith("{") else re.escape(p) for p in pieces)
    return re.compile(f"{pattern}$")


def _typed(text: str, schema: Json) -> object:
    kind = schema.get("type")
    if kind == "integer" and text.lstrip("-").isdigit():
        return int(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return text.split(",") if kind == "array" else text


def _as_json_schema(node: Any) -> Any:
    """OpenAPI 3.0's `nullable` as JSON schema; examples dropped."""
    if isinstance(node, list):
        return [_as_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _as_json_schema(value) for key, value in node.items() if key not in ("example", "examples", "x-github")}
    if made.get("nullable") is True:
        del made["nullable"]
        if isinstance(made.get("enum"), list) and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
        if isinstance(made.get("type"), str):
            made["type"] = [made["type"], "null"]
        elif "type" not in made and made.keys() & {"allOf", "anyOf", "oneOf", "$ref"}:
            made = {"anyOf": [made, {"type": "null"}]}
    return made
