"""
Read JSON arrays record by record, without the whole array in memory.

The standard library can decode a value in the middle of a text, so only the current
record is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

#: Bytes read at once.
_CHUNK = 1 << 20

#: Characters of one record: limits the memory, and the text that is decoded repeatedly.
LONGEST_RECORD = 16 << 20

#: More than "-Infinity", the longest word that the decoder knows; escapes are shorter.
_LONGEST_WORD = 16

_SPACE = " \t\n\r"


class JsonRecordsError(ValueError):
    """The text is not an array of objects; the message says what is wrong."""


def _refuse_constant(name: str) -> NoReturn:
    raise JsonRecordsError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def iterate_records(file: BinaryIO) -> Iterator[tuple[dict[str, object], str]]:
    """
    Yield the objects of a JSON array, or the one object that the file is.

    Each comes with its text on one line, in which numbers are as they were written.

    Raises:
        JsonRecordsError: The file is something else, or a record is longer than
            LONGEST_RECORD.
    """
    text = _Text(file)
    first = text.peek()
    if first == "{":
        yield _check(*text.read_value(), 1)
    elif first == "[":
        text.skip()
        number = 0
        while text.peek() != "]" or number:
            number += 1
            yield _check(*text.read_value(), number)
            separator = text.peek()
            if separator == "]":
                break
            if separator != ",":
                msg = f"neither a comma nor a ] follows record {number:,}"
                raise JsonRecordsError(msg)
            text.skip()
        text.skip()
    else:
        raise JsonRecordsError("it begins with neither [ nor {")
    if text.peek():
        raise JsonRecordsError("more text follows its end")


def _check(value: object, text: str, number: int) -> tuple[dict[str, object], str]:
    if not isinstance(value, dict):
        raise JsonRecordsError(f"record {number:,} is not an object")
    # JSON strings contain no line breaks, so all of these are between values.
    return value, text.replace("\n", " ").replace("\r", " ")


class _Text:
    """The text that was read and is not used yet."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rest = b""
        self._text = ""
        self._at = 0
        self._ended = False
        self._begun = False

    def peek(self) -> str:
        """Return the next character that is not a space; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._fill()

    def skip(self) -> None:
        self._at += 1

    def read_value(self) -> tuple[object, str]:
        """Return the value that begins at the next character, and its text."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or self._is_broken(error):
                    raise JsonRecordsError(error.msg) from error
            except RecursionError as error:
                raise JsonRecordsError("it is nested too deeply") from error
            else:
                # A number could continue in the part that is not read yet.
                if end < len(self._text) or self._ended:
                    begin, self._at = self._at, end
                    return value, self._text[begin:end]
            if len(self._text) - self._at > LONGEST_RECORD:
                raise JsonRecordsError(
                    f"a record is longer than {LONGEST_RECORD:,} characters, or broken"
                )
            self._fill()

    def _is_broken(self, error: json.JSONDecodeError) -> bool:
        """Tell whether *error* would remain, whatever text follows."""
        # An unterminated string is reported at its start; a word such as "true" may
        # be cut off.
        return not error.msg.startswith("Unterminated") and error.pos < (
            len(self._text) - _LONGEST_WORD
        )

    def _fill(self) -> None:
        # Double the text: a long record must not be tried once for each chunk.
        kept = len(self._text) - self._at
        data = self._file.read(max(_CHUNK, kept))
        self._ended = not data
        data = self._rest + data
        try:
            more = data.decode("utf-8-sig" if not self._begun else "utf-8")
            self._rest = b""
        except UnicodeDecodeError as error:
            # A character may be cut in two at the end of what was read.
            if self._ended or error.start < len(data) - 3:
                raise JsonRecordsError("it is not UTF-8") from error
            more, self._rest = data[: error.start].decode(), data[error.start :]
        self._begun = True
        self._text = self._text[self._at :] + more
        self._at = 0
