"""tox's ini format: sections, inheritance, and references between them."""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping

from agent.ci.runners.tox import values
from agent.ci.runners.tox.config import Config, other_names

_REFERENCE = re.compile(r"(?:\[(?P<section>[^\]]+)\])?(?P<key>[\w-]+)(?::(?P<default>.*))?", re.DOTALL)


class IniConfig(Config):
    """`core` is the section of tox itself: "tox", or "tox:tox" in setup.cfg."""

    def __init__(
        self,
        parser: configparser.RawConfigParser,
        core: str,
        posargs: tuple[str, ...] | None,
        env: Mapping[str, str],
        python: str | None,
    ) -> None:
        super().__init__(posargs, env, python)
        self.parser, self.section = parser, core
        self._sections: dict[str, str] = {}  # environment → its section, even if the header is generative
        for section in parser.sections():
            if section.startswith("testenv:"):
                for name in values.names(section.partition(":")[2]):
                    self._sections.setdefault(name, section)

    def env_list(self) -> list[str]:
        return values.names(str(self.core("env_list") or ""))

    def known(self) -> list[str]:
        return list(dict.fromkeys([*self.env_list(), *self._sections]))

    def table(self, name: str) -> Mapping[str, str]:
        return dict(self.parser[name]) if self.parser.has_section(name) else {}

    def core(self, key: str) -> object:
        raw = self._of_section(self.section, key)
        if raw is None:
            return None
        lines = [values.without_comment(line) for line in raw.split("\n")]
        text = "\n".join(lines).replace("\\\n", "")
        return text if key == "env_list" and "[" not in text else self._expanded(text, "py")

    def raw(self, env: str, key: str) -> object:
        for section in self._chain(env):
            raw = self._of_section(section, key)
            if raw is not None and (kept := values.conditional(raw, env)) is not None:
                return kept
        return None

    def settled(self, env: str, key: str) -> object:
        raw = self.raw(env, key)
        return self._expanded(raw, env) if isinstance(raw, str) else None

    def mapping(self, env: str, key: str) -> dict[str, str]:
        found: dict[str, str] = {}
        outer = self.env
        self.chain.append(key)
        try:
            for line in str(self.raw(env, key) or "").split("\n"):
                # A reference to a section stands for several lines.
                lines = self._expanded(line, env) if re.fullmatch(r"\s*\{\[[^{}]+\}\s*", line) else line
                for one in map(str.strip, lines.split("\n")):
                    name, equals, value = one.partition("=")
                    if one.startswith("file|"):
                        self.notes.append(f"the variables in {one[5:].strip()[:80]} are not read")
                    elif equals:
                        self.env = {**found, **outer}
                        found[self._expanded(name.strip(), env)] = self._expanded(value.strip(), env)
                        self.env = outer
        finally:
            self.chain.pop()
            self.env = outer
        return found

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
        # tox reads `[]` as `{posargs}`, wherever it stands.
        return values.substitute(re.sub(r"(?<!\\)\[\]", "{posargs}", text), lambda inside: self.value(inside, env))

    def reference(self, inside: str, env: str) -> str | None:
        found = _REFERENCE.fullmatch(inside)
        if found is None:
            return None
        section, key, default = found["section"], found["key"], found["default"]
        value = self.constant(env, key) if section is None else None
        if value is None:
            value = self._referred(section, key, env)
        return value if value is not None else default

    def _referred(self, section: str | None, key: str, env: str) -> str | None:
        """The raw value of a key of a section (it is substituted in its new context), or of the environment itself."""
        if section is None:
            raw = self.core(key) if key in ("skipsdist", "no_package") else self.raw(env, key)
            return None if raw is None else values.literal(self.inner(env, key))
        own = self._of_section(section, key)
        if own is None:
            name = section.removeprefix("testenv:") if section.startswith("testenv") else None
            raw = self.raw(name, key) if name else None
            return raw if isinstance(raw, str) else None
        return values.conditional(own, env) or ""
