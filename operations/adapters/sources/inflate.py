"""Undo gzip within a limit. Others are refused: a few bytes of zstd are gigabytes."""

from __future__ import annotations

import zlib
from os import SEEK_END
from typing import BinaryIO

from operations.domains import Reached, Tell

GZIP = b"\x1f\x8b"

#: Compressions that Polars would undo by itself, all of it in memory.
_OTHERS = (
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x78\x01", "zlib"),
    (b"\x78\x9c", "zlib"),
    (b"\x78\xda", "zlib"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"PK\x03\x04", "zip"),
)

#: Bytes read at once, and the most that are written at once.
_CHUNK = 1 << 20


class TooLargeError(Exception):
    """The data is larger than the limit."""


def find_other_compression(head: bytes) -> str | None:
    """Return how a file that begins with *head* is compressed, if not by gzip."""
    return next((name for magic, name in _OTHERS if head.startswith(magic)), None)


def gunzip(
    source: BinaryIO, target: BinaryIO, *, most: int, tell: Tell | None = None
) -> int:
    """
    Write the uncompressed data of *source* to *target*; return its size in bytes.

    Args:
        source: One gzip member or several, from its beginning.
        target: Opened for writing.
        most: Largest size of the data, in bytes.
        tell: Called with how far *source* is read. None: nobody listens.

    Raises:
        TooLargeError: The data is larger.
        zlib.error, EOFError: *source* is damaged, or ends too early.
        OSError: The file system failed.
    """
    written = 0
    size = source.seek(0, SEEK_END)
    source.seek(0)
    engine = zlib.decompressobj(wbits=31)
    pending = source.read(_CHUNK)
    while True:
        plain = engine.decompress(pending, _CHUNK)
        written += len(plain)
        if written > most:
            raise TooLargeError
        target.write(plain)
        if tell is not None:
            tell(Reached("unpack", source.tell(), size, "bytes"))
        if engine.eof:
            # Another member may follow, and so may zeros that fill a block.
            pending = (engine.unused_data or source.read(_CHUNK)).lstrip(b"\0")
            if not pending:
                return written
            engine = zlib.decompressobj(wbits=31)
            continue
        pending = engine.unconsumed_tail
        # Less than the limit came out: zlib has nothing more in its buffers.
        if not pending and len(plain) < _CHUNK:
            pending = source.read(_CHUNK)
            if not pending:
                raise EOFError("the compressed data ends too early")
