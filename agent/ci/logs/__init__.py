"""Reads the log of a red job: what failed, of which class, told by which line.

`read_log` for a whole log, `LogTap` for one that arrives in pieces; `excerpt` cuts a log to a hint for people and models.
A log is written by whoever's code ran in the job: what is read from it says what to look for, and is never a verdict.
"""

from agent.ci.logs.classification import LogTap, read_log
from agent.ci.logs.cutting import excerpt
from agent.ci.logs.model import Cause, LogReading, ToldFailure, is_infrastructure, told_ids

__all__ = ["Cause", "LogReading", "LogTap", "ToldFailure", "excerpt", "is_infrastructure", "read_log", "told_ids"]
