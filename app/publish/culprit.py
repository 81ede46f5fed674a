"""What broke the tests, as paragraphs for GitHub. Pure."""

from __future__ import annotations

from agent.contract import words
from agent.contract.last_good import Culprit
from agent.report import culprits
from app.publish.markdown import Quoter


def markdown(culprit: Culprit, quote: Quoter, limit: int) -> list[str]:
    """Paragraphs for GitHub, with at most `limit` characters of the diff."""
    made = [f"{quote.prose(culprits.sentence(culprit), 1000)}."]
    if shown := culprits.change(culprit):
        made.append(quote.fence(shown, limit, "diff"))
    if culprit.breaks:
        fails = "fails" if len(culprit.breaks) == 1 else "fail"
        others = (
            f"Without these lines, {words.counted(len(culprit.breaks), 'other test')} {fails}: {words.named(culprit.breaks)}."
        )
        made.append(quote.prose(others, 600))
    return made
