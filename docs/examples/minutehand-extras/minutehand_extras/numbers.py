"""numbers: the numbers from 1, as CSV."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from models.extending import InstalledSource
from operations.domains import Content, SourceRequest


class Numbers(InstalledSource):
    """Give *count* numbers."""

    count: Annotated[int, Field(ge=1, le=1_000_000)] = Field(examples=[3])

    def read(self, request: SourceRequest) -> Content | None:
        """Write them, unless as many are staged."""
        mark = str(self.count)
        if request.known == mark:
            return None
        request.file.write(b"number\n")
        for number in range(1, self.count + 1):
            request.file.write(b"%d\n" % number)
        return Content(format="csv", mark=mark)
