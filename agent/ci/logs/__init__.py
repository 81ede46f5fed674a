"""Reads the log of a failed job: what failed, its class, and the line that shows it.

A log is a hint for the repair, never a verdict.
"""

from agent.ci.logs.classification import read_log
from agent.ci.logs.model import Cause, LogReading
from agent.ci.logs.steps import excerpt, read_merge, read_seed

__all__ = ["Cause", "LogReading", "excerpt", "read_log", "read_merge", "read_seed"]
