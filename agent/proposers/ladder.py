"""The built-in rungs, in order. `Policy.rungs` (`agent/contract/task.py`) names those that a repair may use."""

from __future__ import annotations

from agent.models.router import Models
from agent.proposer import Proposer
from agent.proposers.history.proposer import HistoryProposer
from agent.proposers.model import model_rungs
from agent.proposers.patterns.proposer import PatternsProposer
from agent.proposers.tools.proposer import ToolsProposer


def built_in_ladder(models: Models | None) -> tuple[Proposer, ...]:
    """Cheapest first. Without a model there are no model rungs."""
    return (ToolsProposer(), HistoryProposer(), PatternsProposer(), *model_rungs(models))
