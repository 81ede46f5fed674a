"""What broke the tests, as paragraphs for GitHub. Pure."""

from __future__ import annotations

from agent.contract.last_good import Culprit
from agent.report import culprits
from app.publish.markdown import Quoter


def markdown(culprit: Culprit, quote: Quoter, limit: int, told: str) -> list[str]:
    """Paragraphs for GitHub, with at most `limit` characters of the diff. `told` stands before them and is not repeated."""
    made = [f"{quote.prose(culprits.sentence(culprit), 1000)}."]
    if shown := culprits.change(culprit):
        made += ["The change that broke the tests, which the branch already has:", quote.fence(shown, limit, "diff")]
    if (others := culprits.needed_by(culprit).strip()) and others not in told:
        made.append(quote.prose(others, 600))
    return made
