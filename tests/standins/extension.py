"""A package of somebody else with a rung of its own, as pip installs it."""

from __future__ import annotations

from pathlib import Path

_RUNG = """\
from agent.contract.proposal import Candidate, FileChange
from agent.proposer import Proposal


class Mine:
    rung = "mine"
    before = "tools"

    def can_help(self, situation):
        return None

    async def propose(self, situation):
        text = (await situation.sandbox.base.read({path!r})).decode()
        change = FileChange({path!r}, text, text.replace({wrong!r}, {right!r}))
        return Proposal((Candidate(self.rung, (change,), "knows the answer"),), 1, 1)
"""


def install_rung(site: Path, path: str, wrong: str, right: str) -> None:
    """Put a package into the folder `site`. Its rung `mine` replaces text in the file at `path`."""
    install(site, _RUNG.format(path=path, wrong=wrong, right=right), "[selfheal.rungs]\nmine = mine_extension:Mine\n")


def install(site: Path, source: str, entry_points: str) -> None:
    """Put a package into the folder `site`. Its module is `mine_extension`."""
    metadata = site / "mine-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    (site / "mine_extension.py").write_text(source)
