"""Renders the templates. Jinja's `finalize` passes every value through `Sanitizer`, so that none is forgotten."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from agent.contract import words
from app.dashboard.diffs import Line, lines_of
from app.dashboard.safe_text import Links, Sanitizer
from app.dashboard.status import fate, learning, pace, status_text, sureness
from app.publish.outcomes import label
from app.publish.proof import likely, source, spent

_HERE = Path(__file__).parent
_TRIGGERS = {"automatic": "Failing run", "command": "Command", "fork": "Fork"}


class Renderer:
    """Renders templates. Create it once; `page` is fast after that."""

    def __init__(self, sanitizer: Sanitizer, links: Links) -> None:
        self._sanitizer = sanitizer
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
            rung=lambda rung: words.capitalized(words.rung(rung)),
            counted=words.counted,
            label=label,
            prose=self._prose,
            verdict=words.verdict,
            diff=self._diff,
            short=lambda sha: (sha or "")[:8],
        )
        self._environment.globals.update(
            links=links,
            asset=_asset,
            status_of=status_text,
            fate_of=fate,
            pace=pace,
            sureness=sureness,
            learning=learning,
            spent=spent,
            trigger_names=_TRIGGERS,
            likely=likely,
            source=source,
        )

    def page(self, name: str, **values: Any) -> str:
        return self._environment.get_template(name).render(**values)

    def _shown(self, value: Any) -> Any:
        if isinstance(value, Markup) or not isinstance(value, str):
            return value
        return self._sanitizer.text(value)

    def _prose(self, text: str, limit: int = 2_000) -> Markup:
        """Untrusted text with its code spans, marked by backticks, as HTML."""
        parts = self._sanitizer.text(text, limit).split("`")
        if len(parts) % 2 == 0:  # an unclosed backtick
            parts[-2:] = ["`".join(parts[-2:])]
        return Markup().join(
            Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts) if part
        )

    def _diff(self, text: str) -> list[Line]:
        return lines_of(text, self._sanitizer)


def ago(at: datetime, now: datetime) -> str:
    """ "5 min ago", or the date if that is more than a day ago."""
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


@cache
def _asset(name: str) -> str:
    """URL of a static file, with a version that changes with its content."""
    return f"/static/{name}?v={hashlib.sha256((_HERE / 'static' / name).read_bytes()).hexdigest()[:10]}"
