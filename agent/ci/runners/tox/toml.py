"""tox's native TOML format: `env_run_base`, `env.<name>`, and values that are tables with `replace`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from agent.ci.project.tables import Table, as_table, strings, table_at
from agent.ci.runners.context import Unfollowed
from agent.ci.runners.tox import values
from agent.ci.runners.tox.config import Config, other_names

_DEPTH = 20


class TomlConfig(Config):
    """`content` is tox.toml, or the table `tool.tox` of pyproject.toml."""

    def __init__(self, content: Table, posargs: tuple[str, ...] | None, env: Mapping[str, str], python: str | None) -> None:
        super().__init__(posargs, env, python)
        self.content = content

    def env_list(self) -> list[str]:
        found: list[str] = []
        raw = self.core("env_list")
        for item in raw if isinstance(raw, list) else []:
            found += [item] if isinstance(item, str) else _product(as_table(item))
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
        own = table_at(self.content, "env", env)
        bases = strings(own.get("base", ["env_run_base"]))
        chain = [own, *(table_at(self.content, name) or table_at(self.content, "env", name) for name in bases)]
        return next((table[name] for table in chain for name in other_names(key) if name in table), None)

    def settled(self, env: str, key: str) -> object:
        return self._settled(self.raw(env, key), env)

    def mapping(self, env: str, key: str) -> dict[str, str]:
        found: dict[str, str] = {}
        self.chain.append(key)
        try:
            value = self.settled(env, key)
        finally:
            self.chain.pop()
        for table in value if isinstance(value, list) else [value]:
            for name, item in as_table(table).items():
                if name == "file":
                    self.notes.append(f"the variables in {str(item)[:80]} are not read")
                elif isinstance(item, dict):
                    found[name] = str(item.get("value", ""))
                else:
                    found[name] = str(item)
        return found

    def _settled(self, value: object, env: str, depth: int = 0) -> object:
        if depth > _DEPTH:
            raise Unfollowed("its values are nested too deeply")
        if isinstance(value, str):
            return values.substitute(value, lambda inside: self.value(inside, env))
        if isinstance(value, list):
            items: list[object] = []
            for item in value:
                settled = self._settled(item, env, depth + 1)
                if isinstance(item, dict) and item.get("replace") and item.get("extend"):
                    items += settled if isinstance(settled, list) else [settled] if settled else []
                else:
                    items.append(settled)
                if len(items) > values.NAMES_LIMIT:
                    raise Unfollowed("a value grows without limit")
            return items
        if isinstance(value, dict):
            if "replace" in value:
                return self._replaced(value, env, depth)
            return {key: self._settled(item, env, depth + 1) for key, item in value.items()}
        return value

    def _replaced(self, value: Table, env: str, depth: int) -> object:
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
            raise Unfollowed(f"its substitutions are circular: {name[:100]}")
        node: object = self.content
        for part in path:
            node = as_table(node).get(part)
        self.chain.append(name)
        try:
            return self._settled(node, env, depth + 1)
        finally:
            self.chain.pop()

    def reference(self, inside: str, env: str) -> str | None:
        value = self.constant(env, inside)
        if value is None and self.raw(env, inside) is not None:
            value = values.literal(self.inner(env, inside))
        return value


def _product(item: Table) -> list[str]:
    """`{product = [["py311", "py312"], {prefix = "django", start = 4, stop = 5}], exclude = […]}`."""
    groups: list[list[str]] = []
    parts = item.get("product")
    for group in parts if isinstance(parts, list) else []:
        match group:
            case list():
                groups.append([str(one) for one in group])
            case {"prefix": prefix}:
                first, last = group.get("start", 11), group.get("stop", 15)
                if isinstance(first, int) and isinstance(last, int):
                    groups.append([f"{prefix}{number}" for number in range(first, last + 1)[: values.NAMES_LIMIT]])
    made = itertools.islice(itertools.product(*groups), values.NAMES_LIMIT) if groups else []
    return [name for parts in made if (name := "-".join(parts)) not in strings(item.get("exclude"))]
