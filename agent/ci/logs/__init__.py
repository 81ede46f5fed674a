"""Reads the log of a failed job: what failed, in which class, by which line.

A log is a hint for the repair, never a verdict.
"""

from agent.ci.logs.classification import read_log
from agent.ci.logs.model import Cause, LoggedFailure, LogReading, failure_ids, is_infrastructure
from agent.ci.logs.steps import excerpt

__all__ = ["Cause", "LogReading", "LoggedFailure", "excerpt", "failure_ids", "is_infrastructure", "read_log"]
