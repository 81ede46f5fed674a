"""`make docs`: writes into the README what is generated from the code, between its markers."""

from __future__ import annotations

from pathlib import Path

from app.settings import table

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- configuration: begin; made by `make docs` -->", "<!-- configuration: end -->"


def main() -> None:
    before, begin, rest = README.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} lacks the markers of the configuration table")
    README.write_text(f"{before}{begin}\n{table()}\n{end}{after}")


if __name__ == "__main__":
    main()
