"""What broke the tests, as paragraphs for GitHub. Pure."""

from __future__ import annotations

from agent.contract.last_good import Culprit
from agent.report import culprits
from app.publish.markdown import Quoter


def markdown(culprit: Culprit, quote: Quoter, limit: int) -> list[str]:
    """Paragraphs for GitHub, with at most `limit` characters of the diff."""
    made = [f"{quote.prose(culprits.sentence(culprit), 1000)}."]
    if shown := culprits.change(culprit):
        made.append(quote.fence(shown, limit, "diff"))
    if others := culprits.needed_by(culprit):
        made.append(quote.prose(others.strip(), 600))
    return made
