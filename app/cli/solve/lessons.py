"""The memory of `selfheal solve --memory on`: lessons of earlier runs, in one file of this user."""

from __future__ import annotations

from pathlib import Path

import msgspec
from platformdirs import user_data_path

from agent.contract.memory import ProcessMemory, Recollection

MOST = 500  # the newest are kept


class FileMemory(ProcessMemory):
    """What was remembered, written after each addition. A file that cannot be read or written only costs the memory."""

    def __init__(self, file: Path | None = None) -> None:
        super().__init__()
        self._file = file or user_data_path("selfheal") / "lessons.jsonl"
        try:
            lines = self._file.read_bytes().split(b"\n")
        except OSError:
            lines = []
        for line in lines:
            try:
                known = msgspec.json.decode(line, type=Recollection)
            except msgspec.DecodeError:
                continue
            self.kept[known.attempt] = known

    async def keep(self, recollection: Recollection) -> None:
        await super().keep(recollection)
        text = b"".join(msgspec.json.encode(each) + b"\n" for each in list(self.kept.values())[-MOST:])
        new = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(text)
            new.replace(self._file)
        except OSError:
            return
