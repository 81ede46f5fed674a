"""GitHub as Selfheal sees it: `GitHub` gives a `Repository`, which reads and writes values of our own.

`channel.py` is the only file of the product that knows githubkit. This room knows nothing of attempts, repairs or texts for
people. How calls fail is drawn in `errors.py`.
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
from app.github.retries import Patience
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
    "Patience",
    "RateLimited",
    "Repository",
    "TooLarge",
    "Unavailable",
]
