"""Every setting, in one place: the only reader of `SELFHEAL_…` variables and of `.env`.

A wrong value, and a name that is no setting, give one clear line that names it (`SettingsError`). The README's table is
generated from this class (`make docs`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import unquote

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, NoDecode, SettingsConfigDict

from agent.question import Autonomy
from app.redaction import passwords

PREFIX = "SELFHEAL_"
ENV_FILE = ".env"
_NO_SETTINGS = ("TEST_", "GUEST", "COMMAND")
"""Beginnings of other names, after the prefix: what tests read, and what a check finds that runs in a sandbox of ours."""


_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|HEADERS)$", re.IGNORECASE)


class SettingsError(Exception):
    """A setting is wrong; the message is one line per setting and names it."""


class Settings(BaseSettings):
    """Settings of the service and of `selfheal fix`; made by `load`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    # GitHub
    github_app_id: int | None = Field(None, description="Id of your GitHub App, from its settings page.")
    github_private_key: SecretStr | None = Field(
        None, description="The App's private key (PEM text). Use this or `GITHUB_PRIVATE_KEY_FILE`."
    )
    github_private_key_file: Path | None = Field(None, description="File with the App's private key (PEM).")
    github_api_url: str = Field("https://api.github.com", description="REST API of GitHub or GitHub Enterprise Server.")
    github_webhook_secret: SecretStr | None = Field(
        None, description="Secret that signs webhooks. The web process does not start without it."
    )
    github_webhook_secret_previous: SecretStr | None = Field(
        None, description="The secret before the current one, accepted too while it is being rotated."
    )

    # Where things are kept
    data_dir: Path = Field(Path(".selfheal"), description="Folder for the SQLite database, checkpoints, caches and sockets.")
    database_url: SecretStr | None = Field(
        None,
        description="The database: `postgresql://user:password@host/database`, as a hosted PostgreSQL hands it out "
        "(`?sslmode=require`), or `sqlite:////folder/file.db`. Default: SQLite in the data folder.",
    )
    redis_url: SecretStr | None = Field(
        None, description="URL of Redis. Default: an embedded redis-server on a Unix socket in the data folder."
    )

    # Serving
    host: str = Field("127.0.0.1", description="Address that the web process listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port that the web process listens on (0 picks a free one).")
    pages_host: str = Field(
        "127.0.0.1",
        description="Address that the pages and their API listen on. They have no sign-in, so one that is not loopback is "
        "refused without `PAGES_WITHOUT_SIGN_IN`.",
    )
    pages_port: int = Field(8001, ge=0, le=65535, description="Port of the pages (0 picks a free one).")
    pages_without_sign_in: bool = Field(
        False,
        description="Say that everybody who reaches `PAGES_HOST` may read everything, so that an address beyond this machine "
        "is not refused. Publish such a port on the host's loopback only.",
    )
    pages_names: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Names by which the pages may be asked for besides `localhost`, `PAGES_HOST` and IP addresses, separated "
        "by commas (`web` where other containers read `/metrics`). Requests by other names are refused: a website could have "
        "its own lead here.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe messages that are logged."
    )
    otlp_endpoint: str | None = Field(
        default_factory=lambda: os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
        description="Collector that spans are sent to, by OTLP over HTTP (`http://collector:4318`). The standard "
        "`OTEL_EXPORTER_OTLP_ENDPOINT` is read too, and so are its headers. Default: no spans are made.",
    )
    worker_jobs: int = Field(2, ge=1, le=64, description="Attempts that one worker process runs at a time.")

    # Attempts
    lease_seconds: float = Field(
        30.0, gt=1, le=600, description="A worker that is silent for so long loses its attempt to another."
    )
    sweep_seconds: float = Field(15.0, gt=0, le=600, description="How often lost attempts are looked for and enqueued again.")
    max_tries: int = Field(3, ge=1, le=20, description="Tries of one attempt before it ends as `error`.")
    max_iterations: int = Field(8, ge=1, le=100, description="Rounds of propose, verify, reflect in one attempt.")
    max_tokens: int = Field(200_000, ge=0, description="Model tokens that one attempt may use.")
    max_cost: float = Field(2.0, ge=0, description="US dollars that one attempt may cost, where the model's price is known.")
    max_seconds: float = Field(1800.0, gt=0, description="Wall time of one attempt, in seconds.")
    autonomy: Autonomy = Field(
        "full",
        description="When a person is asked (`selfheal attempts approve`): never, before anything is published, before each "
        "further round too, before the first proposal too. A repository can only ask for more.",
    )
    rerun_flaky: Literal["never", "once"] = Field(
        "never",
        description="Whether the failed jobs of a run are started again, once, where a failure comes and goes or is no fault "
        "of the code. A repository's own word (`rerun`) counts more. Needs the App's permission `actions: write`.",
    )
    keep_days: float = Field(
        14.0, gt=0, description="Days that an ended attempt can be forked: its checkpoints and file contents are kept so long."
    )

    # The sandbox
    sandbox: Literal["auto", "local", "process", "docker", "e2b"] = Field(
        "auto",
        description="Where untrusted code runs. `local`: bubblewrap on this machine. `docker`: containers of a Docker or "
        "Podman that runs already. `e2b`: a virtual machine at E2B for each "
        "attempt. `auto`: E2B where its key is set, else `local`. `process` has no isolation and needs `TRUST_CODE`.",
    )
    sandbox_image: str = Field(
        "python:3.12",
        min_length=1,
        description="Image that code runs in with `SANDBOX=docker`; the engine pulls it where it does not have it.",
    )
    sandbox_images: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Images that a workflow's `container:` may name with `SANDBOX=docker`: patterns, separated by commas, in "
        "which `*` is anything but a slash (`python:*,node:*`, `ghcr.io/team/*`). They are always pulled. Default: none; jobs "
        "run in `SANDBOX_IMAGE`.",
    )
    docker_host: str | None = Field(
        None,
        description="Address of the container engine (`unix:///path`, `tcp://host:port`). Default: `DOCKER_HOST`, else the "
        "usual sockets of Docker and Podman, rootless ones first.",
    )
    trust_code: bool = Field(
        False, description="Say that the code of every repository is trusted, so that `SANDBOX=process` is not refused."
    )
    package_index_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Hosts that an install step may reach, separated by commas. Default: those of the package client's own "
        "configuration.",
    )
    e2b_api_key: SecretStr | None = Field(
        default_factory=lambda: SecretStr(key) if (key := os.environ.get("E2B_API_KEY")) else None,
        description="Key of E2B, from its dashboard. The SDK's own `E2B_API_KEY` is read too.",
    )
    e2b_template: str = Field(
        "selfheal",
        min_length=1,
        description="Template of the machines at E2B (docs/e2b.md); `.venv/bin/python -m deploy.e2b.build` makes it.",
    )
    e2b_sandboxes: int = Field(20, ge=1, le=1000, description="Machines at E2B that one worker has at a time (plans: 20, 100).")
    e2b_creations_per_second: float = Field(
        1.0, gt=0, le=100, description="How fast one worker makes machines at E2B (its plans: 1, 5)."
    )
    e2b_lifetime_seconds: float = Field(
        3600.0, gt=0, description="How long E2B lets one machine live (its plans: 3600, 86400). An attempt must fit in it."
    )
    python_downloads: bool = Field(
        True,
        description="Whether a Python that a repository wants and this machine lacks is downloaded by uv, outside the sandbox.",
    )
    sandbox_memory_mb: int = Field(4096, ge=64, description="Memory of one sandbox, in MiB, where it can be bounded.")

    # The models
    model: str | None = Field(
        None,
        description="LiteLLM name of the model that is asked first (`ollama_chat/qwen2.5-coder:7b`, `anthropic/…`, `openai/…`) "
        "or `none`. Default: Ollama's Qwen-Coder when Ollama answers on localhost:11434, else no model. Here and below, one on "
        "a server of its own is named with it: `openai/NAME@http://host:8001/v1`.",
    )
    model_strong: str | None = Field(None, description="A stronger model, a rung of its own: asked where the first one failed.")
    model_fallbacks: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Models that stand in where one is out of reach or declines, in their order, separated by commas."
    )
    model_diagnose: str | None = Field(None, description="Who looks for the cause, instead of the rung's own model.")
    model_repair: str | None = Field(None, description="Who writes the change, instead of the rung's own model.")
    model_review: str | None = Field(None, description="Who reviews a proven change, instead of the first model.")
    model_challenge: str | None = Field(
        None, description="Who writes tests against a proven change, instead of the first model."
    )
    embedding_model: str | None = Field(
        None, description="LiteLLM name of an embedding model, by which earlier attempts are found again."
    )
    model_api_base: str | None = Field(
        None, description="URL of the server of `MODEL` (OpenAI-compatible, or a remote Ollama) and of others of its provider."
    )
    model_api_key: SecretStr | None = Field(
        None,
        description="Key of the provider of `MODEL`. Those of other providers are read from their own variables "
        "(`ANTHROPIC_API_KEY`, …).",
    )
    model_timeout: float = Field(120.0, gt=0, description="Seconds that one model call may take.")
    model_context: int = Field(
        16384, ge=1024, description="Context window asked of Ollama, in tokens (its default cuts prompts)."
    )

    @field_validator("github_api_url", "model_api_base", "otlp_endpoint")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must be a URL that starts with http:// or https://")
        return value.rstrip("/") if value else value

    @field_validator("redis_url")
    @classmethod
    def _is_redis_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must be a URL that starts with redis://, rediss:// or unix://")
        return value

    @field_validator("package_index_hosts", "pages_names", mode="before")
    @classmethod
    def _are_hosts(cls, value: Any) -> Any:
        hosts = [host.strip() for host in value.split(",") if host.strip()] if isinstance(value, str) else value
        if isinstance(value, str) and any("/" in host for host in hosts):
            raise ValueError("must be names of hosts, separated by commas, without http:// and paths")
        return hosts

    @field_validator("model_fallbacks", "sandbox_images", mode="before")
    @classmethod
    def _are_names(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @cached_property
    def database(self) -> str:
        """URL of the database; `app/store/address.py` reads it."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite+aiosqlite:///{(self.data_dir / 'selfheal.db').resolve()}"

    @cached_property
    def sandboxes(self) -> Path:
        """Where the worker keeps its sandboxes and their packages."""
        return self.data_dir.resolve() / "sandboxes"

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Every secret that is set, to be taken out of whatever is published or logged: also the key in its file, passwords
        inside URLs, and what the environment holds for others (other providers' keys, headers of a collector)."""
        set_here = (getattr(self, name) for name in type(self).model_fields)
        secrets = {value.get_secret_value() for value in set_here if isinstance(value, SecretStr)}
        with suppress(SettingsError):  # a file that cannot be read gives nothing away
            secrets.add(self.private_key or "")
        secrets |= {password for secret in secrets for password in passwords(secret)}
        return tuple(sorted(secrets.union(_ambient(os.environ)) - {""}))

    @cached_property
    def private_key(self) -> str | None:
        """PEM text of the App's key. Raises `SettingsError` when its file cannot be read."""
        if self.github_private_key is not None:
            return self.github_private_key.get_secret_value().replace("\\n", "\n")
        if self.github_private_key_file is None:
            return None
        try:
            return self.github_private_key_file.read_text()
        except OSError as error:
            raise SettingsError(f"{PREFIX}GITHUB_PRIVATE_KEY_FILE: {error.strerror}: {self.github_private_key_file}") from error


def _ambient(environment: Mapping[str, str]) -> Iterator[str]:
    """Secrets among variables that are not ours. Words and paths are none: hiding them would spoil ordinary text."""
    for name, value in environment.items():
        yield from passwords(value)
        if name.startswith(PREFIX) or not _SECRET_NAME.search(name):
            continue
        for part in (value, *(pair.partition("=")[2] for pair in value.split(","))) if name.endswith("HEADERS") else (value,):
            secret = unquote(part.strip())
            is_long = len(secret) >= 20 or (len(secret) >= 8 and any(character.isdigit() for character in secret))
            if is_long and not secret.startswith(("/", "~", ".")):
                yield secret


def load(*, env_file: str | None = None, **overrides: object) -> Settings:
    """Read the settings. Keyword arguments win over the environment, and that over `env_file`. Raises `SettingsError`.

    `env_file` is for commands that run in a folder of the operator's own: the one of a folder that nobody vouches for could
    send the model's key elsewhere, or leave out the sandbox.
    """
    try:
        wrong = list(_unknown(env_file))
        settings = Settings(_env_file=env_file, **overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("\n".join((*wrong, *map(_told, error.errors(include_url=False))))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{env_file} cannot be read: {error}") from error
    if wrong:
        raise SettingsError("\n".join(wrong))
    return settings


def unread_names(env_file: str | None) -> Iterator[tuple[str, str]]:
    """Names in `env_file` that somebody may have meant for us, though nobody reads them there; each with what to do."""
    known = [field.upper() for field in Settings.model_fields]
    for name in sorted(name.upper() for name in DotEnvSettingsSource(Settings, env_file=env_file).env_vars):
        if name in known:
            yield name, f"write {PREFIX}{name} if it is meant for Selfheal"
        elif name.endswith("_API_KEY") and not name.startswith(PREFIX):
            yield (
                name,
                f"keys of other providers are read from the environment alone; for the model's own write {PREFIX}MODEL_API_KEY",
            )


def _unknown(env_file: str | None) -> Iterator[str]:
    """One line about each name that looks like a setting and is none: most likely it is mistyped."""
    known = [field.upper() for field in Settings.model_fields]
    in_file = DotEnvSettingsSource(Settings, env_file=env_file).env_vars
    told = (EnvSettingsSource(Settings).env_vars, in_file)
    full = [PREFIX + name for name in known]
    for name in sorted(name.upper() for name in in_file):
        if not name.startswith(PREFIX) and (nearest := get_close_matches(name, full, n=1, cutoff=0.9)):
            yield f"{name} in {env_file} is not a setting; did you mean {nearest[0]}?"
    for name in sorted({name.upper() for variables in told for name in variables}):
        wanted = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and wanted not in known and not wanted.startswith(_NO_SETTINGS):
            nearest = get_close_matches(wanted, known, n=1)
            hint = f"did you mean {PREFIX}{nearest[0]}?" if nearest else "the README lists them all"
            yield f"{name} is not a setting; {hint}"


def _told(problem: Any) -> str:
    """One line about one wrong value, which is shown unless it is a secret."""
    field = str(problem["loc"][0]) if problem["loc"] else ""
    said = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    given = "" if _is_secret(field) or problem["input"] is None else f", not {problem['input']!r:.80}"
    return f"{PREFIX}{field.upper()} {said[:1].lower()}{said[1:]}{given}"


def _is_secret(field: str) -> bool:
    info = Settings.model_fields.get(field)
    return info is None or SecretStr in (info.annotation, *get_args(info.annotation))
