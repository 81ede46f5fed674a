"""Reads the `services:` of a job: the servers that a sandbox may have, and those that are not supported.

Knows image names and the form of the mapping, after expressions were evaluated; starts nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from agent.contract.verdicts import Service
from agent.guest.text import one_line

SERVICES = 20  # maximum for one job
NAME_LIMIT, VALUE_LIMIT = 100, 4000  # characters
Kind = Literal["postgresql", "mysql", "redis"]
PORTS: Mapping[Kind, int] = {"postgresql": 5432, "mysql": 3306, "redis": 6379}
# Image name without its owner → the server, and what the image adds to it.
IMAGES: Mapping[str, tuple[Kind, str]] = {
    "postgres": ("postgresql", ""),
    "postgresql": ("postgresql", ""),
    "postgis": ("postgresql", "the extension PostGIS"),
    "pgvector": ("postgresql", "the extension pgvector"),
    "mysql": ("mysql", ""),
    "mysql-server": ("mysql", ""),
    "mariadb": ("mysql", ""),
    "redis": ("redis", ""),
    "valkey": ("redis", ""),
}
_OWNERS = ("", "library", "bitnami", "bitnamilegacy", "cimg", "circleci", "mysql", "postgis", "pgvector", "ankane", "valkey")
# Bitnami's names for variables of the official images.
_BITNAMI = {
    "POSTGRESQL_USERNAME": "POSTGRES_USER",
    "POSTGRESQL_PASSWORD": "POSTGRES_PASSWORD",
    "POSTGRESQL_DATABASE": "POSTGRES_DB",
}
_FREE_PORTS = 20_000  # ports from here on stand in for those that GitHub would choose


@dataclass(frozen=True, slots=True)
class JobServices:
    """The services of a job.

    `refusals`: a service that no sandbox has → why, as a clause: "elasticsearch:8 is not supported". `ports` is the context
    `job.services`: service → {"ports": {container port: port on localhost}}.
    """

    services: tuple[Service, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ports: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Why the job cannot be replayed, or "" if it can."""
        named = ", ".join(f"{name} ({why})" for name, why in self.refusals.items())
        return f"The job needs services that the sandbox does not have: {named}." if named else ""


def read_services(mapping: object, *, in_container: bool = False) -> JobServices:
    """`mapping` is the evaluated `services:`. In a container job, services are reached by name, at their own ports."""
    if not mapping:
        return JobServices()
    if not isinstance(mapping, Mapping):
        return JobServices(refusals={"services": "`services:` is not a mapping"})
    if len(mapping) > SERVICES:
        return JobServices(refusals={"services": f"more than {SERVICES} are not supported"})
    reading = _ServiceReader(in_container)
    for name, asked in mapping.items():
        reading.add(one_line(str(name), NAME_LIMIT), asked)
    return JobServices(tuple(reading.services), reading.refusals, tuple(reading.notes), reading.ports)


class _ServiceReader:
    """Reads the services of one job in order; no two share a port."""

    def __init__(self, in_container: bool) -> None:
        self.in_container = in_container
        self.services: list[Service] = []
        self.refusals: dict[str, str] = {}
        self.notes: list[str] = []
        self.ports: dict[str, Mapping[str, Mapping[str, str]]] = {}

    def add(self, name: str, asked: object) -> None:
        asked = asked if isinstance(asked, Mapping) else {"image": asked}
        image = one_line(_text(asked.get("image")), 200).strip()
        if not image:
            return  # GitHub starts nothing either
        owner, repository = _repository(image)
        if repository not in IMAGES:
            self.refusals[name] = f"{image} is not supported"
            return
        kind, beyond = IMAGES[repository]
        words = [*_words(asked.get("options")), *_words(asked.get("entrypoint")), *_words(asked.get("command"))]
        env = {_BITNAMI.get(key, key): value for key, value in {**_variables(asked.get("env")), **_options(words)}.items()}
        if kind == "redis" and "--requirepass" in words[:-1]:
            env["REDIS_PASSWORD"] = words[words.index("--requirepass") + 1]
        port = self._port(name, kind, asked.get("ports"))
        if port is None:
            return
        self.services.append(Service(kind, port, name, image, env, host=name if self.in_container else "localhost"))
        if beyond:
            self.notes.append(f"service {name}: {beyond} of {image} may be missing")
        if owner not in _OWNERS:
            self.notes.append(f"service {name}: {image} is treated as a plain {repository}")
        if asked.get("volumes"):
            self.notes.append(f"service {name}: its volumes are ignored")

    def _port(self, name: str, kind: Kind, asked: object) -> int | None:
        """The port to listen on. A server here has only one; in a container job it is the default port."""
        own = PORTS[kind]
        listed = asked if isinstance(asked, list) else [] if asked is None else [asked]
        pairs = [pair for pair in map(_pair, listed[:SERVICES]) if pair is not None]
        if len(pairs) != len(listed):
            self.refusals[name] = f"its ports cannot be read: {one_line(str(listed), 100)}"
            return None
        taken = {service.port for service in self.services}
        if self.in_container:
            pairs = [(own, own)]
        elif not pairs:
            self.notes.append(f"service {name}: the workflow maps no ports for it; it listens on {own}")
            pairs = [(own, own)]
        inside, outside = next((pair for pair in pairs if pair[0] == own), pairs[0])
        free = (own, *range(_FREE_PORTS, _FREE_PORTS + SERVICES))
        port = outside or next(port for port in free if port not in taken)
        if port in taken:
            self.refusals[name] = f"another service uses port {port}"
            return None
        if len(pairs) > 1:
            self.notes.append(f"service {name}: only its port {inside} is reachable, on port {port}")
        self.ports[name] = {"ports": {str(inside): str(port)}}
        return port


def _repository(image: str) -> tuple[str, str]:
    """Owner and name: "docker.io/library/postgres:16@sha256:…" → ("library", "postgres")."""
    path, _, name = image.partition("@")[0].rpartition("/")
    parts = path.split("/")
    is_registry = "." in parts[0] or ":" in parts[0]
    return "/".join(parts[1:] if is_registry else parts).lower(), name.partition(":")[0].lower()


def _pair(port: object) -> tuple[int, int | None] | None:
    """Container port and port on localhost, None if GitHub chooses one: `5433:5432/tcp` → (5432, 5433)."""
    found = re.fullmatch(r"(?:\d+(?:\.\d+){3}:)?(?:(\d{1,5}):)?(\d{1,5})(?:/tcp)?", _text(port).strip())
    if found is None:
        return None
    numbers = int(found[2]), None if found[1] is None else int(found[1])
    return numbers if all(n is None or 0 < n < 65_536 for n in numbers) else None


def _variables(env: object) -> dict[str, str]:
    pairs = env.items() if isinstance(env, Mapping) else ()
    return {_text(key): _text(value) for key, value in pairs}


def _options(words: list[str]) -> dict[str, str]:
    """Variables that are set on the command line: `-e NAME=value`, `--env NAME=value`, `--env=NAME=value`."""
    given = [after for word, after in pairwise(words) if word in ("-e", "--env")]
    given += [word.removeprefix("--env=") for word in words if word.startswith("--env=")]
    return {name: value for name, equals, value in (text.partition("=") for text in given) if equals}


def _words(text: object) -> list[str]:
    if isinstance(text, list):
        return [_text(word) for word in text]
    try:
        return shlex.split(_text(text))
    except ValueError:
        return []


def _text(value: object) -> str:
    if value is None or isinstance(value, list | Mapping):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)[:VALUE_LIMIT]
