"""Let a source of a package write its data, within the bounds of all sources."""

from __future__ import annotations

import io
import time
from typing import BinaryIO, cast

from pydantic import JsonValue, ValidationError

from models.errors import StepError
from models.fields.strict_model import say
from models.installed import INSTALLED
from operations.adapters.polars_io import explain_too_large
from operations.adapters.sources.formats import FORMATS
from operations.domains import (
    Content,
    Limits,
    Reached,
    SourceRequest,
    Tell,
)

#: Seconds between two calls of a listener.
_TELL_S = 1.0


class BoundedFile(io.RawIOBase):
    """A file that takes no more than the limits allow, and tells how far it is."""

    def __init__(
        self, file: BinaryIO, *, shown: str, limits: Limits, tell: Tell | None
    ) -> None:
        """Write to *file*; the time counts from now on."""
        self._file, self._shown, self._limits, self._tell = file, shown, limits, tell
        self._size = 0
        self._give_up_at = time.monotonic() + limits.time.total_seconds()
        self._tell_at = 0.0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: object) -> int:
        """Write *data*; StepError if that is too much, or too late."""
        content = memoryview(cast("bytes", data))
        self._size += content.nbytes
        if self._size > self._limits.bytes:
            raise explain_too_large(self._shown, self._limits)
        now = time.monotonic()
        if now > self._give_up_at:
            msg = (
                f"{self._shown}: reading it took longer than {self._limits.time} "
                "(MINUTEHAND_SOURCE_TIMEOUT)."
            )
            raise StepError(msg, permanent=False)
        if self._tell is not None and now >= self._tell_at:
            self._tell_at = now + _TELL_S
            self._tell(Reached("read", self._size, None, "bytes"))
        self._file.write(content)
        return content.nbytes


def fetch_from_package(
    name: str, given: JsonValue, request: SourceRequest, shown: str
) -> Content | None:
    """
    Let the source *name* of a package do its work.

    Args:
        name: Of the kind.

        given: What people wrote for it.

        request: What it is asked for.

        shown: What messages call it.

    Returns:
        None if it is as ``request.known`` says.

    Raises:
        StepError: From the package; or it is not installed here, what people wrote is
            not what it takes now, or it answered with nonsense: permanent.
    """
    kind = INSTALLED.get().sources.get(name)
    if kind is None:
        why = INSTALLED.get().explain_missing("source", name)
        msg = f"{shown} is of no kind that is built in or installed here. {why}"
        raise StepError(msg, permanent=True)
    try:
        source = kind.model_validate(given)
    except ValidationError as error:
        msg = f"{shown}: {say(error)}"
        raise StepError(msg, permanent=True) from error
    content = source.read(request)
    if content is None and request.known is not None:
        return None
    if not isinstance(content, Content) or content.format not in FORMATS:
        package = INSTALLED.get().origins["source", name]
        msg = (
            f"{shown}: package {package} answered {content!r}, which is no Content of "
            f"a format among {', '.join(FORMATS)}. It has to be mended."
        )
        raise StepError(msg, permanent=True)
    return content
