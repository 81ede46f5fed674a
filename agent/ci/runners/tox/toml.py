"""tox's native TOML form: `env_run_base`, `env.<name>`, and values that are tables with `replace`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from agent.ci.runners.tox import values as tox_values
from agent.ci.runners.tox.config import Config, Line, marked, other_names
from agent.ci.runners.tox.values import ToxError
from agent.ci.tables import as_table

_DEPTH = 20


class TomlConfig(Config):
    """`content` is tox.toml, or the table `tool.tox` of pyproject.toml."""

    def __init__(
        self, content: Mapping[str, object], posargs: tuple[str, ...] | None, env: Mapping[str, str], python: str | None
    ) -> None:
        super().__init__(posargs, env, python)
        self.content = content

    def env_list(self) -> list[str]:
        found: list[str] = []
        raw = self.core("env_list")
        for item in raw if isinstance(raw, list) else []:
            if isinstance(item, str):
                found.append(item)
            elif isinstance(item, dict):
                found += _product(item)
        return list(dict.fromkeys(found))

    def known(self) -> list[str]:
        return list(dict.fromkeys([*self.env_list(), *as_table(self.content.get("env"))]))

    def table(self, name: str) -> Mapping[str, str]:
        found = as_table(self.content.get(name))
        return {
            key: "\n".join(f"{k}: {', '.join(map(str, v)) if isinstance(v, list) else v}" for k, v in as_table(value).items())
            for key, value in found.items()
        }

    def core(self, key: str) -> object:
        return next((self.content[name] for name in other_names(key) if name in self.content), None)

    def raw(self, env: str, key: str) -> object:
        own = as_table(as_table(self.content.get("env")).get(env))
        chain: list[Mapping[str, object]] = [own]
        base = own.get("base", ["env_run_base"])
        for name in base if isinstance(base, list) else []:
            chain.append(as_table(self.content.get(str(name))) or as_table(as_table(self.content.get("env")).get(str(name))))
        for table in chain:
            for name in other_names(key):
                if name in table:
                    return table[name]
        return None

    def strings(self, env: str, key: str) -> list[str]:
        value = self._settled(self.raw(env, key), env)
        return [str(item) for item in value] if isinstance(value, list) else [] if value is None else str(value).split("\n")

    def lines(self, env: str, key: str) -> list[Line]:
        value = self._settled(self.raw(env, key), env)
        rows = value if isinstance(value, list) else []
        return [marked([str(word) for word in row]) for row in rows if isinstance(row, list)]

    def mapping(self, env: str, key: str) -> dict[str, str]:
        raw = self.raw(env, key)
        found: dict[str, str] = {}
        self.chain.append(key)
        try:
            value = self._settled(raw, env)
        finally:
            self.chain.pop()
        for table in value if isinstance(value, list) else [value]:
            for name, item in as_table(table).items():
                if name == "file":
                    self.notes.append(f"variables of {str(item)[:80]} are not read")
                elif isinstance(item, dict):
                    found[name] = str(item.get("value", ""))
                else:
                    found[name] = str(item)
        return found

    def text(self, env: str, key: str) -> str:
        value = self._settled(self.raw(env, key), env)
        return "\n".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)

    def _settled(self, value: object, env: str, depth: int = 0) -> object:
        if depth > _DEPTH:
            raise ToxError("its values are nested too deeply")
        if isinstance(value, str):
            return tox_values.substitute(value, lambda inside: self._value(inside, env))
        if isinstance(value, list):
            items: list[object] = []
            for item in value:
                settled = self._settled(item, env, depth + 1)
                if isinstance(item, dict) and item.get("replace") and item.get("extend"):
                    items += settled if isinstance(settled, list) else [settled] if settled else []
                else:
                    items.append(settled)
                if len(items) > tox_values.NAMES_LIMIT:
                    raise ToxError("a value grows without end")
            return items
        if isinstance(value, dict):
            if "replace" in value:
                return self._replaced(value, env, depth)
            return {key: self._settled(item, env, depth + 1) for key, item in value.items()}
        return value

    def _replaced(self, value: Mapping[str, object], env: str, depth: int) -> object:
        default = value.get("default", "")
        match value["replace"]:
            case "posargs":
                return self._settled(value.get("default", []), env, depth + 1) if self.posargs is None else list(self.posargs)
            case "env":
                settled = self._settled(default, env, depth + 1)
                return self.variable(env, str(value.get("name")), str(settled) if settled is not None else "")
            case "ref" if isinstance(value.get("of"), list):
                return self._referred([str(part) for part in value["of"]], env, depth)  # type: ignore[attr-defined]
            case "ref" if "env" in value and "key" in value:
                return self._settled(self.raw(str(value["env"]), str(value["key"])), str(value["env"]), depth + 1)
        self.notes.append(f"`replace = {str(value['replace'])[:40]!r}` is not evaluated; its default is taken")
        return self._settled(default or value.get("else", ""), env, depth + 1)

    def _referred(self, path: list[str], env: str, depth: int) -> object:
        name = ".".join(path)
        if name in self.chain:
            raise ToxError(f"its substitutions go in a circle: {name[:100]}")
        node: object = self.content
        for part in path:
            node = as_table(node).get(part)
        self.chain.append(name)
        try:
            return self._settled(node, env, depth + 1)
        finally:
            self.chain.pop()

    def _value(self, inside: str, env: str) -> str | None:
        kind, colon, rest = inside.partition(":")
        if inside in (":", "/"):
            return inside
        if kind == "posargs":
            return rest if self.posargs is None else tox_values.literal(" ".join(self.posargs))
        if kind == "env" and colon:
            name, _, default = rest.partition(":")
            return self.variable(env, name, default)
        value = self.constant(env, inside)
        if value is None and self.raw(env, inside) is not None:
            value = tox_values.literal(self.inner(env, inside))
        return value


def _product(item: Mapping[str, object]) -> list[str]:
    groups: list[list[str]] = []
    raw = item.get("product")
    for group in raw if isinstance(raw, list) else []:
        if isinstance(group, list):
            groups.append([str(one) for one in group])
        elif isinstance(group, dict) and "prefix" in group:
            first, last = group.get("start", 11), group.get("stop", 15)
            if not (isinstance(first, int) and isinstance(last, int) and last - first < tox_values.NAMES_LIMIT):
                raise ToxError("its list of environments is too long")
            groups.append([f"{group['prefix']}{number}" for number in range(first, last + 1)])
    excluded = item.get("exclude")
    left_out = {str(name) for name in excluded} if isinstance(excluded, list) else set()
    made = itertools.islice(itertools.product(*groups), tox_values.NAMES_LIMIT) if groups else []
    return [name for parts in made if (name := "-".join(parts)) not in left_out]
