"""The client for GitHub: `GitHub` gives a `Repository`, which reads and writes values of our own.

Only `channel.py` knows githubkit. This package knows nothing of attempts, repairs or texts for people. `errors.py` draws how
calls fail.
"""

from app.github.client import GitHub
from app.github.errors import (
    BadCredentials,
    Conflict,
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unavailable,
)
from app.github.repository import Repository
from app.github.retries import RetryPolicy
from app.github.types import PUBLISHING, READING

__all__ = [
    "PUBLISHING",
    "READING",
    "BadCredentials",
    "Conflict",
    "Forbidden",
    "GitHub",
    "GitHubError",
    "Invalid",
    "NotFound",
    "RateLimited",
    "Repository",
    "RetryPolicy",
    "TooLarge",
    "Unavailable",
]
