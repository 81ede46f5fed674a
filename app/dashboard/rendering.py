"""Templates made into text. Every value that is written into one passes `Shower`, so that none can be forgotten."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from agent import words
from app.dashboard.diffs import Line, lines_of
from app.dashboard.safe_text import Links, Shower
from app.dashboard.status import fate, label, learning, pace, standing, sureness
from app.publish.reflection_log import spent

_HERE = Path(__file__).parent
_TRIGGERS = {"automatic": "Failing run", "command": "Command", "fork": "Fork"}


class Renderer:
    """Made once; `page` is quick afterwards."""

    def __init__(self, shower: Shower, links: Links) -> None:
        self._shower = shower
        self._environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            finalize=self._shown,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(
            ago=ago,
            clock=clock,
            took=words.took,
            who=_who,
            counted=words.counted,
            label=label,
            prose=self._prose,
            diff=self._diff,
            short=_short,
        )
        self._environment.globals.update(
            links=links,
            asset=_asset,
            standing_of=standing,
            fate_of=fate,
            pace=pace,
            sureness=sureness,
            learning=learning,
            spent=spent,
            trigger_names=_TRIGGERS,
            elapsed=elapsed,
        )

    def page(self, name: str, **values: Any) -> str:
        return self._environment.get_template(name).render(**values)

    def _shown(self, value: Any) -> Any:
        if isinstance(value, Markup) or not isinstance(value, str):
            return value
        return self._shower.text(value)

    def _prose(self, text: str, limit: int = 2_000) -> Markup:
        """Foreign words in which backticks mark code, as our own texts and those of models have it."""
        parts = self._shower.text(text, limit).split("`")
        if len(parts) % 2 == 0:  # a backtick that nothing closes
            parts[-2:] = ["`".join(parts[-2:])]
        return Markup().join(
            Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts) if part
        )

    def _diff(self, text: str) -> list[Line]:
        return lines_of(text, self._shower)


def ago(at: datetime, now: datetime) -> str:
    """How long ago, as short as a list wants it."""
    seconds = max(0.0, (now - at).total_seconds())
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds / 3600:.0f} h ago"
    return at.strftime("%b %-d" if at.year == now.year else "%b %-d, %Y")


def clock(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def elapsed(began: datetime | None, at: datetime) -> str:
    """Since the beginning, for a timeline: "+0.4 s", "+2 min"."""
    return f"+{words.took(max(0.0, ((at - began) if began else timedelta()).total_seconds()))}"


def _who(rung: str) -> str:
    said = words.rung(rung)
    return said[:1].upper() + said[1:]


def _short(sha: str | None) -> str:
    return (sha or "")[:8]


def _asset(name: str) -> str:
    """Address of a file of ours that changes when it does."""
    if name not in _versions:
        _versions[name] = hashlib.sha256((_HERE / "static" / name).read_bytes()).hexdigest()[:10]
    return f"/static/{name}?v={_versions[name]}"


_versions: dict[str, str] = {}
