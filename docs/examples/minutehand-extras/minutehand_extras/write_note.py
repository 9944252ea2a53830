"""write_note: append a line to a file below the folder that EXTRAS_NOTES names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from models.errors import StepError
from models.extending import InstalledStep
from operations.ports import StepContext

FileName = Annotated[str, Field(pattern=r"^[a-z0-9_-]+\.txt$")]


class WriteNote(InstalledStep):
    """Append *text* to *file*, at least once."""

    text: Annotated[str, Field(max_length=1000)] = Field(examples=["done"])
    file: FileName = Field(default="notes.txt", examples=["notes.txt"])

    def run(self, context: StepContext) -> Mapping[str, JsonValue]:
        """Write the line; the operation's id tells repeated ones apart."""
        folder = os.environ.get("EXTRAS_NOTES")
        if folder is None:
            msg = "EXTRAS_NOTES is not set for this worker. Set it to a folder."
            raise StepError(msg, permanent=True)
        with (Path(folder) / self.file).open("a", encoding="utf-8") as notes:
            notes.write(f"{context.operation_id} {self.text}\n")
        context.say(f"wrote to {self.file}")
        return {"file": self.file}
