"""A provider: the model `copybook:FOLDER` answers with FOLDER/NAME.py, where NAME is the function that is asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from agent.contract.budget import Usage
from agent.models.values import Answer, Message, ModelSettings, ModelUnavailable


class Copybook:
    """The entry point in `selfheal.providers`. Created once for each configured model."""

    answer_tokens = 4096

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings

    async def complete(
        self, messages: Sequence[Message], *, seconds: float, temperature: float = 0.0, role: str = ""
    ) -> Answer:
        """Raises a `ModelError` if there is no answer; Selfheal then goes on without one."""
        asked = re.search(r"^(?:async )?def (\w+)\(", messages[-1]["content"], re.MULTILINE)
        file = Path(self.settings.name.partition(":")[2]) / f"{asked[1] if asked else '_'}.py"
        if role not in ("write", "repair") or not file.is_file():
            raise ModelUnavailable(f"the copybook has no answer for the role {role!r}")
        code = await asyncio.to_thread(file.read_text, "utf-8")
        return Answer(f"```python\n{code}\n```", Usage(calls=1, cost=0.0), "stop", self.settings.name)

    async def embed(self, texts: Sequence[str], *, seconds: float) -> list[list[float]]:
        raise ModelUnavailable("a copybook has no embeddings")
