"""The formats of sources, and what tells which of them a source has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic import JsonValue

from models.errors import StepError

FORMATS = ("csv", "json", "ndjson", "parquet")

#: Other names of formats in a source.
_ALIASES = {"jsonl": "ndjson"}

#: Format by the suffix of a file or of a URL.
_SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}

#: Format by Content-Type, for URLs without such a suffix.
_MEDIA_TYPES = {
    "text/csv": "csv",
    "application/csv": "csv",
    "application/json": "json",
    "application/ndjson": "ndjson",
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/jsonlines": "ndjson",
    "application/x-jsonlines": "ndjson",
    "application/vnd.apache.parquet": "parquet",
}


def find_format(
    source: Mapping[str, JsonValue], name: str, media_type: str = "", *, shown: str
) -> str:
    """
    Return which of FORMATS a source has: by its "format", suffix or media type.

    Raises:
        StepError: Permanent: none of them says it.
    """
    given = source.get("format")
    if isinstance(given, str):
        given = _ALIASES.get(given, given)
        if given in FORMATS:
            return given
    plain = name.lower().removesuffix(".gz")
    by_suffix = _SUFFIXES.get(PurePosixPath(plain).suffix)
    by_type = _MEDIA_TYPES.get(media_type.partition(";")[0].strip().lower())
    found = None if given is not None else by_suffix or by_type
    if found is None:
        said = "is not given" if given is None else f"{given!r} is not known"
        msg = f'{shown}: format {said}. Write "format": one of {", ".join(FORMATS)}.'
        raise StepError(msg, permanent=True)

    return found
