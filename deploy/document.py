"""`make docs`: writes the table of settings into `docs/configuration.md`, between its markers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from app.settings import PREFIX, Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
BEGIN, END = "<!-- configuration: begin; made by `make docs` -->", "<!-- configuration: end -->"


def main() -> None:
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} lacks the markers of the configuration table")
    PAGE.write_text(f"{before}{begin}\n{table()}\n{end}{after}")


def table() -> str:
    """Every setting as a Markdown table: name, default, description."""
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for name, info in Settings.model_fields.items():
        default = "" if info.default in (None, (), PydanticUndefined) else f"`{info.default}`"
        meaning = (info.description or "").replace("|", "\\|")
        annotation = info.annotation
        if get_origin(annotation) is Literal:
            meaning += " One of " + ", ".join(f"`{value}`" for value in get_args(annotation)) + "."
        rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {meaning} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
