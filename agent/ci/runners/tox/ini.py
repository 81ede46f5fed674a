"""tox's ini form: sections, inheritance, and references between them. See `tox_config` for what it settles into."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Mapping

from agent.ci.runners.tox import values as tox_values
from agent.ci.runners.tox.config import Config, Line, command_line, other_names

_REFERENCE = re.compile(r"(?:\[(?P<section>[^\]]+)\])?(?P<key>[\w-]+)(?::(?P<default>.*))?", re.DOTALL)


class IniConfig(Config):
    """`core` is the section of tox itself: "tox", or "tox:tox" in setup.cfg."""

    def __init__(
        self,
        parser: configparser.ConfigParser,
        core: str,
        posargs: tuple[str, ...] | None,
        env: Mapping[str, str],
        python: str | None,
    ) -> None:
        super().__init__(posargs, env, python)
        self.parser, self.section = parser, core
        self._sections: dict[str, str] = {}  # environment → its section, also where the header is generative
        for section in parser.sections():
            if section.startswith("testenv:"):
                for name in tox_values.names(section.partition(":")[2]):
                    self._sections.setdefault(name, section)

    def env_list(self) -> list[str]:
        return tox_values.names(str(self.core("env_list") or ""))

    def known(self) -> list[str]:
        return list(dict.fromkeys([*self.env_list(), *self._sections]))

    def table(self, name: str) -> Mapping[str, str]:
        return dict(self.parser[name]) if self.parser.has_section(name) else {}

    def core(self, key: str) -> object:
        raw = self._of_section(self.section, key)
        if raw is None:
            return None
        lines = [tox_values.without_comment(line) for line in raw.split("\n")]
        text = "\n".join(lines).replace("\\\n", "")
        return text if key == "env_list" and "[" not in text else self._expanded(text, "py")

    def raw(self, env: str, key: str) -> object:
        for section in self._chain(env):
            raw = self._of_section(section, key)
            if raw is not None and (kept := tox_values.conditional(raw, env)) is not None:
                return kept
        return None

    def strings(self, env: str, key: str) -> list[str]:
        separators = "\n" if key == "deps" else "\n,"
        return [item.strip() for item in re.split(f"[{separators}]", self.text(env, key)) if item.strip()]

    def lines(self, env: str, key: str) -> list[Line]:
        return [command_line(line) for line in self.text(env, key).split("\n") if line.strip()]

    def mapping(self, env: str, key: str) -> dict[str, str]:
        raw = self.raw(env, key)
        if not isinstance(raw, str):
            return {}
        found: dict[str, str] = {}
        self.chain.append(key)
        try:
            # References to other sections are lines; values are substituted one by one.
            lines = [line.strip() for line in raw.split("\n") if line.strip()]
            for line in lines:
                if re.fullmatch(r"\{\[[^{}]+\}", line):
                    lines_of = [part.strip() for part in self._expanded(line, env).split("\n")]
                else:
                    lines_of = [line]
                for one in lines_of:
                    name, equals, value = one.partition("=")
                    if one.startswith("file|"):
                        self.notes.append(f"variables of {one[5:].strip()[:80]} are not read")
                    elif equals:
                        found[self._expanded(name.strip(), env)] = self._variable_value(value.strip(), env, found)
        finally:
            self.chain.pop()
        return found

    def text(self, env: str, key: str) -> str:
        raw = self.raw(env, key)
        return self._expanded(raw, env).strip() if isinstance(raw, str) else ""

    def _variable_value(self, value: str, env: str, before: Mapping[str, str]) -> str:
        outer = self.env
        self.env = {**before, **outer}
        try:
            return self._expanded(value, env)
        finally:
            self.env = outer

    def _chain(self, env: str) -> list[str]:
        """The sections that an environment inherits from, nearest first."""
        chain: list[str] = []
        waiting = [self._sections.get(env, f"testenv:{env}"), "testenv"]
        while waiting and len(chain) < 20:
            section = waiting.pop(0)
            if section in chain or not self.parser.has_section(section):
                continue
            chain.append(section)
            bases = [part.strip() for part in re.split(r"[,\n]", self.parser[section].get("base", "")) if part.strip()]
            found = [name for base in bases for name in (base, f"testenv:{base}") if self.parser.has_section(name)]
            waiting = [*found, *(() if bases else waiting)]
        return chain

    def _of_section(self, section: str, key: str) -> str | None:
        if not self.parser.has_section(section):
            return None
        options = self.parser[section]
        return next((options[name] for name in other_names(key) if name in options), None)

    def _expanded(self, text: str, env: str) -> str:
        return tox_values.substitute(text, lambda inside: self._value(inside, env))

    def _value(self, inside: str, env: str) -> str | None:
        kind, colon, rest = inside.partition(":")
        match kind:
            case "" if inside == ":":
                return ":"
            case "/":
                return "/"
            case "posargs":
                return rest if self.posargs is None else tox_values.literal(shlex.join(self.posargs))
            case "env" if colon:
                name, _, default = rest.partition(":")
                return self.variable(env, name, default)
            case "tty" if colon:
                return rest.partition(":")[2]
            case "glob" if colon:
                self.notes.append(f"the pattern {rest[:60]} is not looked up")
                return tox_values.literal(rest)
        found = _REFERENCE.fullmatch(inside)
        if found is None:
            return None
        section, key, default = found["section"], found["key"], found["default"]
        value = self.constant(env, key) if section is None else None
        if value is None:
            value = self._referred(section, key, env)
        return value if value is not None else default

    def _referred(self, section: str | None, key: str, env: str) -> str | None:
        """A key of a section as it is written (it is substituted in its new place), or of the environment itself."""
        if section is None:
            raw = self.core(key) if key in ("skipsdist", "no_package") else self.raw(env, key)
            return None if raw is None else tox_values.literal(self.inner(env, key))
        own = self._of_section(section, key)
        if own is None:
            name = section.removeprefix("testenv:") if section.startswith("testenv") else None
            raw = self.raw(name, key) if name else None
            return raw if isinstance(raw, str) else None
        return tox_values.conditional(own, env) or ""
