"""Who calls: the App's JSON web token, installation tokens and personal tokens; minting, narrowing and expiry of tokens."""

from __future__ import annotations

import base64
import binascii
import functools
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.standins.github.routing import PERMISSION_LEVELS, Actor, Refusal
from tests.standins.github.state import Account, Installation, Json, now
from tests.standins.github.world import World

TOKEN_LIFE = timedelta(hours=1)
JWT_LIFE = timedelta(minutes=10)


@functools.cache
def app_key() -> rsa.RSAPrivateKey:
    """One key per process: making it costs a tenth of a second, and tests need no two."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def private_pem() -> str:
    """PKCS#1, as GitHub hands it out."""
    pem = app_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return pem.decode()


@dataclass(slots=True, eq=False)
class Token:
    value: str
    actor: Actor
    expires: datetime | None = None


@dataclass(slots=True)
class Tokens:
    """Every token ever made; a value is never made twice."""

    world: World
    known: dict[str, Token] = field(default_factory=dict)

    def personal(self, account: Account) -> str:
        value = f"ghp_{secrets.token_hex(18)}"
        self.known[value] = Token(value, Actor(account))
        return value

    def expire(self) -> None:
        """Make every installation token an hour old."""
        for token in self.known.values():
            if token.expires is not None:
                token.expires = now() - timedelta(seconds=1)

    def mint(self, installation: Installation, wanted: Json) -> tuple[Token, list[int] | None]:
        """A token for an installation, narrowed as asked. Raises `Refusal` (422) when more is asked than is there."""
        repositories = self.world.repositories_of(installation)
        chosen: set[int] | None = None
        if wanted.get("repositories") or wanted.get("repository_ids"):
            names, ids = wanted.get("repositories", []), wanted.get("repository_ids", [])
            by_name = {r.name: r.id for r in repositories}
            if set(names) - by_name.keys() or set(ids) - {r.id for r in repositories}:
                raise Refusal(
                    422, "There is at least one repository that does not exist or is not accessible to the parent installation."
                )
            chosen = {by_name[name] for name in names} | set(ids)
        permissions = wanted.get("permissions") or installation.permissions
        for name, level in permissions.items():
            if PERMISSION_LEVELS.get(level, 9) > PERMISSION_LEVELS[installation.permissions.get(name, "none")]:
                raise Refusal(422, "The permissions requested are not granted to this installation.")
        actor = Actor(
            self.world.bot,
            installation=installation,
            permissions={"metadata": "read", **permissions},
            repository_ids=frozenset(chosen if chosen is not None else (r.id for r in repositories)),
        )
        token = Token(f"ghs_{secrets.token_hex(18)}", actor, now() + TOKEN_LIFE)
        self.known[token.value] = token
        return token, None if chosen is None else sorted(chosen)

    def actor(self, authorization: str | None) -> Actor:
        """Who an Authorization header stands for. Raises `Refusal` (401) for what is unknown or expired."""
        if not authorization:
            return Actor()
        kind, _, value = authorization.partition(" ")
        if kind.lower() == "basic":
            try:
                value = base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                raise Refusal(401, "Bad credentials") from None
        elif kind.lower() == "bearer" and value.count(".") == 2:
            return self._app(value)
        token = self.known.get(value)
        if token is None or (token.expires is not None and token.expires <= now()):
            raise Refusal(401, "Bad credentials")
        installation = token.actor.installation
        if installation is not None and installation.id not in self.world.installations:
            raise Refusal(401, "Bad credentials")
        if installation is not None and installation.suspended is not None:
            raise Refusal(403, "This installation has been suspended")
        return token.actor

    def _app(self, value: str) -> Actor:
        try:
            claims = jwt.decode(value, app_key().public_key(), algorithms=["RS256"], options={"require": ["exp", "iat", "iss"]})
        except jwt.PyJWTError as error:
            raise Refusal(401, f"A JSON web token could not be decoded: {error}") from None
        if str(claims["iss"]) != str(self.world.app.id):
            raise Refusal(401, "Integration not found")
        if claims["exp"] - now().timestamp() > JWT_LIFE.total_seconds():
            raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")
        return Actor(as_app=True)
