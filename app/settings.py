"""All settings. Only this module reads `SELFHEAL_…` variables and `.env`.

An invalid value or an unknown name raises `SettingsError` with one line that names it. `make docs` generates the table in
docs/configuration.md from this class.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import unquote

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, NoDecode, SettingsConfigDict

from agent.contract.question import Autonomy
from agent.models.values import Role, is_loopback
from app.redaction import passwords
from webhooks.triggers import BRANCH_PREFIX

PREFIX = "SELFHEAL_"
ENV_FILE = ".env"
_NO_SETTINGS = ("TEST_", "GUEST", "COMMAND")
"""Prefixes of `SELFHEAL_…` names that are not settings: variables for the tests, and for commands inside a sandbox."""


_BRANCHES_OF_PEOPLE = re.compile(  # and of other programs
    r"main|master|trunk|dev|develop|development|stable|staging|prod|production|releases?|feat|features?|fix|fixes|bug|bugfix|"
    r"hotfix|hotfixes|chore|docs|tests?|refactor|users?|revert|dependabot|renovate|refs|gh-readonly-queue"
)
_BRANCH_PREFIX = re.compile(r"[A-Za-z0-9]+(?:[._/-][A-Za-z0-9]+)*[/-]")
_PLAIN_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\w[\w.-]*|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?(?:/[!-~]*)?", re.ASCII | re.IGNORECASE
)
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|HEADERS)$", re.IGNORECASE)


class SettingsError(Exception):
    """A setting is invalid; the message has one line per setting and names it."""


class Settings(BaseSettings):
    """Settings of the service and of the command line; created by `load`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    # GitHub
    github_app_id: int | None = Field(None, description="ID of the GitHub App, from its settings page.")
    github_private_key: SecretStr | None = Field(
        None, description="The App's private key (PEM text). Use this or `GITHUB_PRIVATE_KEY_FILE`."
    )
    github_private_key_file: Path | None = Field(None, description="File with the App's private key (PEM).")
    github_api_url: str = Field("https://api.github.com", description="URL of GitHub's or GitHub Enterprise Server's REST API.")
    github_download_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Hosts in a private network from which logs and archives may be downloaded, because a GitHub Enterprise "
        "server redirects there: names, addresses and networks (`logs.corp,10.1.0.0/16`), separated by commas. The server's "
        "own host is always allowed.",
    )
    github_webhook_secret: SecretStr | None = Field(
        None, description="Secret that GitHub signs webhooks with. Required by the web process."
    )
    github_webhook_secret_previous: SecretStr | None = Field(
        None, description="Previous webhook secret, still accepted during rotation."
    )
    branch_prefix: str = Field(
        BRANCH_PREFIX,
        description="Prefix of the names of Selfheal's branches, if a ruleset demands one (`bot/`, `fix/selfheal-`). Failures "
        "on branches with this prefix start no attempts, so no other branches may have it. Set it for all processes.",
    )

    # Storage
    data_dir: Path = Field(Path(".selfheal"), description="Folder for the SQLite database, checkpoints, caches and sockets.")
    database_url: SecretStr | None = Field(
        None,
        description="Database: `postgresql://user:password@host/database`, with parameters such as `?sslmode=require`, "
        "or `sqlite:////folder/file.db`. Default: SQLite in the data folder.",
    )
    redis_url: SecretStr | None = Field(
        None, description="Redis URL. Default: an embedded redis-server on a Unix socket in the data folder."
    )

    # Serving
    host: str = Field("127.0.0.1", description="Address of the webhook listener.")
    port: int = Field(8000, ge=0, le=65535, description="Port of the webhook listener (0 picks a free one).")
    pages_host: str = Field(
        "127.0.0.1",
        description="Address of the pages and their API. They have no sign-in: a non-loopback address needs "
        "`PAGES_WITHOUT_SIGN_IN`.",
    )
    pages_port: int = Field(8001, ge=0, le=65535, description="Port of the pages (0 picks a free one).")
    pages_without_sign_in: bool = Field(
        False,
        description="Allow a non-loopback `PAGES_HOST`; anyone who can reach that address can read everything.",
    )
    pages_names: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Host names under which the pages may be requested besides `localhost`, `PAGES_HOST` and IP "
        "addresses, separated by commas (`web` if other containers read `/metrics`). Other names are rejected, "
        "which prevents DNS rebinding.",
    )
    pages_url: str = Field(
        "",
        pattern=r"^(https?://[A-Za-z0-9._~:/-]*[A-Za-z0-9])?/?$",
        description="Address under which people reach the pages (`https://selfheal.example.com`). If set, check runs, comments "
        "and pull requests link to the attempt's page.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Minimum log level.")
    otlp_endpoint: str | None = Field(
        default_factory=lambda: os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
        description="OpenTelemetry collector for traces, OTLP over HTTP (`http://collector:4318`). "
        "`OTEL_EXPORTER_OTLP_ENDPOINT` and its headers are read too. Default: no tracing.",
    )
    worker_jobs: int = Field(2, ge=1, le=64, description="Maximum number of attempts that one worker process runs at once.")

    # Attempts
    lease_seconds: float = Field(
        30.0, gt=1, le=600, description="Seconds without a heartbeat after which another worker takes over an attempt."
    )
    sweep_seconds: float = Field(
        15.0, gt=0, le=600, description="Seconds between two sweeps, which enqueue lost attempts again."
    )
    max_tries: int = Field(3, ge=1, le=20, description="Failed tries after which an attempt ends as `error`.")
    max_iterations: int = Field(8, ge=1, le=100, description="Maximum iterations (propose, verify, reflect) per attempt.")
    max_tokens: int = Field(200_000, ge=0, description="Maximum number of model tokens per attempt.")
    max_cost: float = Field(2.0, ge=0, description="Maximum cost of one attempt in US dollars, if the model's price is known.")
    max_seconds: float = Field(1800.0, gt=0, description="Maximum duration of one attempt, in seconds.")
    repository_attempts_per_day: int = Field(
        200, ge=0, description="Maximum number of attempts per repository and day (UTC). A repository can only lower this."
    )
    repository_tokens_per_day: int = Field(
        20_000_000, ge=0, description="Maximum number of model tokens per repository and day. A repository can only lower this."
    )
    repository_cost_per_day: float = Field(
        100.0,
        ge=0,
        description="Maximum cost of models per repository and day, in US dollars, if their prices are known. A repository can "
        "only lower this.",
    )
    person_attempts_per_day: int = Field(
        50,
        ge=0,
        description="Maximum number of attempts that one person's `/heal` comments and re-runs of the check start per day.",
    )
    person_tokens_per_day: int = Field(
        10_000_000, ge=0, description="Maximum number of model tokens for one person's attempts per day."
    )
    person_cost_per_day: float = Field(
        50.0, ge=0, description="Maximum cost of models for one person's attempts per day, in US dollars."
    )
    attempts_per_day: int = Field(2000, ge=0, description="Maximum number of attempts per day, of all repositories together.")
    tokens_per_day: int = Field(
        200_000_000, ge=0, description="Maximum number of model tokens per day, of all repositories together."
    )
    cost_per_day: float = Field(
        500.0, ge=0, description="Maximum cost of models per day, of all repositories together, in US dollars."
    )
    autonomy: Autonomy = Field(
        "full",
        description="When to wait for approval (`selfheal attempts approve`): never (`full`), before publishing "
        "(`review_publish`), also before each later iteration (`review_repairs`), also before the first "
        "proposal (`review_all`). A repository can only make this stricter.",
    )
    search_head_start: float = Field(
        5.0,
        ge=0,
        description="Seconds of search without a model before a model is asked too, while the search goes on. Twice as "
        "long for a model on this machine (Ollama, or a loopback address) with fewer than eight cores.",
    )
    min_confidence: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Confidence that a repair needs for a pull request. Default: 0.85, and 0.65 for a change of the "
        "search if no model is configured. A less sure change is shown as a suspect, with a question. A repository can only "
        "raise this.",
    )
    rerun_flaky: Literal["never", "once"] = Field(
        "never",
        description="Whether to rerun failed jobs once if the failure is flaky or outside the code. A repository's `rerun` key "
        "overrides this. The App needs the permission `actions: write`.",
    )
    github_write_seconds: float = Field(
        1.0,
        ge=0,
        le=60,
        description="Least time between two writes to GitHub for one installation, by all workers together, in seconds. "
        "GitHub asks for at least one second.",
    )
    wait_for_runs_seconds: float = Field(
        60.0,
        ge=0,
        le=600,
        description="How long an attempt waits for other workflows of its commit that still run, in seconds, so that it "
        "repairs all failures together. A workflow that fails later starts a further attempt. Check runs and statuses of other "
        "CI services are waited for only if no workflow failed.",
    )
    keep_days: float = Field(
        14.0,
        gt=0,
        description="Days for which an ended attempt can be forked; its checkpoints and files are kept for that long.",
    )

    # The sandbox
    sandbox: Literal["auto", "local", "process", "docker", "e2b"] = Field(
        "auto",
        description="Where untrusted code runs. `local`: bubblewrap on this machine. `docker`: containers of a running "
        "Docker or Podman. `e2b`: one E2B virtual machine per attempt. `auto`: E2B if its key is set, "
        "otherwise `local`. `process`: no isolation; needs `TRUST_CODE`.",
    )
    sandbox_image: str = Field(
        "python:3.12",
        min_length=1,
        description="Image for `SANDBOX=docker`; pulled if the container engine does not have it.",
    )
    sandbox_images: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Images that a workflow's `container:` may use with `SANDBOX=docker`: patterns separated by commas, "
        "in which `*` matches anything but a slash (`python:*,node:*`, `ghcr.io/team/*`). Always pulled. "
        "Default: none; jobs run in `SANDBOX_IMAGE`.",
    )
    docker_host: str | None = Field(
        None,
        description="Address of the container engine (`unix:///path`, `tcp://host:port`). Default: `DOCKER_HOST`, "
        "otherwise the usual sockets of Docker and Podman, rootless first.",
    )
    trust_code: bool = Field(False, description="Trust the code of every repository; allows `SANDBOX=process`.")
    package_index_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Package hosts that an install step may reach, separated by commas. Default: those in the package client's "
        "own configuration.",
    )
    package_index_strategy: Literal["first", "best"] = Field(
        "first",
        description="Which of several package indexes provides a Python project. `first`: the first one that has it, in the "
        "order of pip's `index-url` and `extra-index-url`. `best`: the one with the highest version, so anyone who can publish "
        "on one of them can replace your projects.",
    )
    crates_index: str | None = Field(
        None,
        description="Address of the sparse index from which crates are fetched. Default: the one that replaces `crates-io` in "
        "cargo's own configuration; without one, crates are not fetched.",
    )
    go_proxy: str | None = Field(
        None,
        description="Address of the proxy from which Go modules are fetched. Default: the first one of `go env GOPROXY`. "
        "Without Go, they are not fetched.",
    )
    download_mb: int = Field(
        3072,
        ge=1,
        description="Maximum size on disk of what one install step downloads outside the sandbox, in MiB, with the package "
        "client's temporary files and unpacked crates. The sandbox's disk limit (4096) applies too.",
    )
    download_seconds: float = Field(
        900.0, gt=0, le=2400, description="Maximum duration of these downloads together, in seconds."
    )
    cache_mb: int = Field(
        5120,
        ge=1,
        description="Maximum size of each cache of packages, in MiB. The oldest entries that are not in use are removed "
        "(`selfheal cache`).",
    )
    e2b_api_key: SecretStr | None = Field(
        default_factory=lambda: SecretStr(key) if (key := os.environ.get("E2B_API_KEY")) else None,
        description="E2B API key, from its dashboard. `E2B_API_KEY` is read too.",
    )
    e2b_template: str = Field(
        "selfheal",
        min_length=1,
        description="E2B template for the machines (docs/e2b.md); `.venv/bin/python -m deploy.e2b.build` builds it.",
    )
    e2b_sandboxes: int = Field(
        20, ge=1, le=1000, description="Maximum number of E2B machines of one worker at once (by plan: 20 or 100)."
    )
    e2b_creations_per_second: float = Field(
        1.0, gt=0, le=100, description="Maximum number of E2B machines that one worker creates per second (by plan: 1 or 5)."
    )
    e2b_lifetime_seconds: float = Field(
        3600.0, gt=0, description="Maximum lifetime of an E2B machine (by plan: 3600 or 86400); at least `MAX_SECONDS` + 600."
    )
    python_downloads: bool = Field(
        True,
        description="Let uv download, outside the sandbox, Python versions that a repository needs and this machine lacks.",
    )
    sandbox_memory_mb: int = Field(4096, ge=64, description="Memory limit of one sandbox, in MiB, if it can be enforced.")

    # The models
    model: str | None = Field(
        None,
        description="LiteLLM name of the first model (`ollama_chat/qwen2.5-coder:7b`, `anthropic/…`, `openai/…`), or "
        "`none`. Default: Qwen-Coder if Ollama has it (at `MODEL_API_BASE`, or else at `OLLAMA_HOST` or "
        "localhost:11434), otherwise no model. Write a model on its "
        "own server as `openai/NAME@http://host:8001/v1`, here and below.",
    )
    model_strong: str | None = Field(None, description="Stronger model: a separate rung, tried after the first model's.")
    model_fallbacks: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Fallback models, separated by commas; each is used if the one before it is unreachable or declines."
    )
    model_diagnose: str | None = Field(None, description="Model for diagnosis. Default: the rung's own model.")
    model_repair: str | None = Field(None, description="Model that writes the patch. Default: the rung's own model.")
    model_review: str | None = Field(None, description="Model that reviews a verified patch. Default: the first model.")
    model_write: str | None = Field(
        None,
        description="Model that designs and writes code from a specification. Default: `MODEL_REPAIR`, else the first model.",
    )
    model_challenge: str | None = Field(
        None, description="Model that writes further tests for a verified patch. Default: the first model."
    )
    embedding_model: str | None = Field(None, description="LiteLLM name of the embedding model for finding similar failures.")
    model_api_base: str | None = Field(
        None, description="Server URL of `MODEL` and of other models from its provider (OpenAI-compatible, or a remote Ollama)."
    )
    model_api_key: SecretStr | None = Field(
        None,
        description="API key of `MODEL`'s provider. Keys of other providers come from their own variables "
        "(`ANTHROPIC_API_KEY`, …).",
    )
    model_timeout: float = Field(120.0, gt=0, description="Timeout of one model call, in seconds.")
    model_context: int = Field(
        16384, ge=1024, description="Context window requested from Ollama, in tokens (Ollama's default truncates prompts)."
    )

    model_answer_tokens: int = Field(
        4096, ge=256, description="Limit of one answer, in tokens, at most a third of the context window. Reasoning counts."
    )
    model_role_tokens: Annotated[dict[Role, Annotated[int, Field(ge=256)]], NoDecode] = Field(
        {}, description="The same limit for single roles (`design=1000,repair=8000`); `selfheal models` lists the roles."
    )
    model_role_temperatures: Annotated[dict[Role, Annotated[float, Field(ge=0, le=2)]], NoDecode] = Field(
        {},
        description="Temperatures of single roles (`review=0.2,write=0.4`). Default: 0. Later tries of `repair` and samples of "
        "`write` are warmer if this one is lower.",
    )

    @field_validator("github_api_url", "model_api_base", "otlp_endpoint")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must be a URL that starts with http:// or https://")
        return value.rstrip("/") if value else value

    @field_validator("github_api_url")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        return safe_url(value)

    @field_validator("branch_prefix")
    @classmethod
    def _begins_branches(cls, value: str) -> str:
        if len(value) > 40 or not _BRANCH_PREFIX.fullmatch(value) or ".lock/" in value:
            raise ValueError("must be at most 40 letters, digits, dots, hyphens and slashes, and end with / or -")
        if _BRANCHES_OF_PEOPLE.fullmatch(value.rstrip("/-").lower()):
            raise ValueError(f"is a prefix of people's branches; use {value.rstrip('/-')}/selfheal-")
        return value

    @field_validator("redis_url")
    @classmethod
    def _is_redis_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must be a URL that starts with redis://, rediss:// or unix://")
        return value

    @field_validator(
        "package_index_hosts", "pages_names", "github_download_hosts", "model_fallbacks", "sandbox_images", mode="before"
    )
    @classmethod
    def _are_names(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, str):
            return value
        if info.field_name in ("package_index_hosts", "pages_names") and "/" in value:
            raise ValueError("must be host names separated by commas, without http:// or paths")
        return [name.strip() for name in value.split(",") if name.strip()]

    @field_validator("model_role_tokens", "model_role_temperatures", mode="before")
    @classmethod
    def _are_by_role(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        parts = [each.partition("=") for each in value.split(",") if each.strip()]
        return {role.strip(): given.strip() for role, _, given in parts}

    @field_validator("github_download_hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            try:
                ip_network(each, strict=False)
            except ValueError:
                if not re.fullmatch(r"\w[\w.-]*", each, re.ASCII):
                    raise ValueError("must be host names, addresses and networks, without https://, ports or paths") from None
        return tuple(each.lower() for each in value)

    @cached_property
    def database(self) -> str:
        """URL of the database; `app/store/database/address.py` parses it."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite+aiosqlite:///{(self.data_dir / 'selfheal.db').resolve()}"

    @cached_property
    def sandboxes(self) -> Path:
        """Folder for the worker's sandboxes and their packages."""
        return self.data_dir.resolve() / "sandboxes"

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Every secret to redact from what is published or logged, including the key in its file, passwords in URLs, and other
        software's secrets in the environment (other providers' keys, a collector's headers)."""
        set_here = (getattr(self, name) for name in type(self).model_fields)
        secrets = {value.get_secret_value() for value in set_here if isinstance(value, SecretStr)}
        with suppress(SettingsError):  # an unreadable file leaks nothing
            secrets.add(self.private_key or "")
        secrets |= {password for secret in secrets for password in passwords(secret)}
        return tuple(sorted(secrets.union(_ambient(os.environ)) - {""}))

    @cached_property
    def private_key(self) -> str | None:
        """PEM text of the App's private key. Raises `SettingsError` if its file cannot be read."""
        if self.github_private_key is not None:
            return self.github_private_key.get_secret_value().replace("\\n", "\n")
        if self.github_private_key_file is None:
            return None
        try:
            return self.github_private_key_file.read_text()
        except OSError as error:
            raise SettingsError(f"{PREFIX}GITHUB_PRIVATE_KEY_FILE: {error.strerror}: {self.github_private_key_file}") from error


def safe_url(value: str) -> str:
    """`value`, to which credentials are sent. Raises `ValueError` unless it is a plain https URL, or one of this machine."""
    if "@" in value.partition("://")[2].partition("/")[0]:
        raise ValueError("must not contain a user or a password; credentials have settings of their own")
    if "?" in value or "#" in value:
        raise ValueError("must not contain a query (?) or a fragment (#)")
    plain = _PLAIN_URL.fullmatch(value)
    if plain is None or int(plain["port"] or 0) > 65535:
        raise ValueError("must be of the form https://HOST, https://HOST:PORT or https://HOST/PATH")
    if plain["scheme"] != "https" and not is_loopback(plain["host"].strip("[]")):
        raise ValueError("must begin with https://, because credentials are sent there (http:// only for this machine)")
    return value


def _ambient(environment: Mapping[str, str]) -> Iterator[str]:
    """Secrets in other software's variables. Words and paths are excluded: redacting them would garble ordinary text."""
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
    """Read the settings: keyword arguments, then the environment, then `env_file`. Raises `SettingsError`.

    `env_file` is only for commands that run in the operator's own folder: in an untrusted checkout it could send the model's
    key elsewhere or disable the sandbox.
    """
    try:
        wrong = list(_unknown(env_file))
        settings = Settings(_env_file=env_file, **overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("\n".join((*wrong, *map(_sentence, error.errors(include_url=False))))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{env_file} cannot be read: {error}") from error
    if wrong:
        raise SettingsError("\n".join(wrong))
    return settings


def unread_names(env_file: str | None) -> Iterator[tuple[str, str]]:
    """Names in `env_file` that were probably meant for Selfheal but are not read from it; each with its fix."""
    known = [field.upper() for field in Settings.model_fields]
    for name in sorted(name.upper() for name in DotEnvSettingsSource(Settings, env_file=env_file).env_vars):
        if name in known:
            yield name, f"write {PREFIX}{name} if it is meant for Selfheal"
        elif name.endswith("_API_KEY") and not name.startswith(PREFIX):
            yield name, f"other providers' keys are read from the environment only; {PREFIX}MODEL_API_KEY sets `MODEL`'s key"


def _unknown(env_file: str | None) -> Iterator[str]:
    """One line for each name that looks like a setting but is not one."""
    known = [field.upper() for field in Settings.model_fields]
    in_file = DotEnvSettingsSource(Settings, env_file=env_file).env_vars
    sources = (EnvSettingsSource(Settings).env_vars, in_file)
    full = [PREFIX + name for name in known]
    for name in sorted(name.upper() for name in in_file):
        if not name.startswith(PREFIX) and (nearest := get_close_matches(name, full, n=1, cutoff=0.9)):
            yield f"{name} in {env_file} is not a setting; did you mean {nearest[0]}?"
    for name in sorted({name.upper() for variables in sources for name in variables}):
        wanted = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and wanted not in known and not wanted.startswith(_NO_SETTINGS):
            nearest = get_close_matches(wanted, known, n=1)
            hint = f"did you mean {PREFIX}{nearest[0]}?" if nearest else "docs/configuration.md lists all settings"
            yield f"{name} is not a setting; {hint}"


def _sentence(problem: Any) -> str:
    """One line about an invalid value, which is shown unless it is a secret, or a URL that may contain one."""
    field = str(problem["loc"][0]) if problem["loc"] else ""
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    is_hidden = _is_secret(field) or problem["input"] is None or any(mark in str(problem["input"]) for mark in "@?#")
    given = "" if is_hidden else f", not {problem['input']!r:.80}"
    return f"{PREFIX}{field.upper()} {message[:1].lower()}{message[1:]}{given}"


def _is_secret(field: str) -> bool:
    info = Settings.model_fields.get(field)
    return info is None or SecretStr in (info.annotation, *get_args(info.annotation))
