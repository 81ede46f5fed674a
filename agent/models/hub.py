"""Fetches a snapshot from Hugging Face, or from the mirror that HF_ENDPOINT names. Only what `agent.models.snapshots` reads."""

from __future__ import annotations

from pathlib import Path

from agent.models import snapshots
from agent.models.available import PullFailed


def fetch(name: str) -> Path:
    """Fetch OWNER/NAME, with progress on standard error; whole files are not fetched again. Raises `PullFailed`."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    folder = snapshots.folder_of(name)
    for file in snapshots.cut(folder):
        file.unlink()  # the library takes a file that it once finished as good, unless it is newer than its record
    try:
        snapshot_download(name, local_dir=folder, allow_patterns=list(snapshots.PATTERNS))
    except GatedRepoError as error:
        raise PullFailed(f"{name} is gated: accept its terms on its page, then set HF_TOKEN to your token") from error
    except RepositoryNotFoundError as error:
        raise PullFailed(f"there is no public model {name}; check the name, or set HF_TOKEN if it is private") from error
    except Exception as error:  # it raises what its HTTP client raises, which depends on its version
        why = str(error).strip().split("\n")[0][:300]
        raise PullFailed(
            f"{name} could not be fetched ({type(error).__name__}: {why}); run the command again, it resumes"
        ) from error
    if problems := snapshots.problems(folder):
        raise PullFailed(f"{name} was fetched, but cannot be used: {problems[0]}")
    return folder
