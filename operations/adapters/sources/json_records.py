"""
JSON arrays as lines, one record each, without holding the array.

The standard library reads a value out of the middle of a text, so all that is kept
is the record at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

#: Bytes read at once.
_CHUNK = 1 << 20

#: Characters of one record: a bound on memory, and on what is read again and again.
LONGEST_RECORD = 16 << 20

#: Letters of "-Infinity", the longest word the decoder knows; escapes are shorter.
_LONGEST_WORD = 16

_SPACE = " \t\n\r"


class JsonRecordsError(ValueError):
    """The text is no array of objects; the message says where it ends to be one."""


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON"
    raise JsonRecordsError(msg)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def iterate_records(file: BinaryIO) -> Iterator[tuple[dict[str, object], str]]:
    """
    Yield the objects of a JSON array, or the one object that the file is.

    Each comes with its text, on one line: numbers are as they were written.

    Raises:
        JsonRecordsError: It is something else, or a record is longer than
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
                msg = f"after record {number:,} stands neither a comma nor a ]"
                raise JsonRecordsError(msg)
            text.skip()
        text.skip()
    else:
        raise JsonRecordsError("it begins neither with [ nor with {")
    if text.peek():
        raise JsonRecordsError("something follows its end")


def _check(value: object, text: str, number: int) -> tuple[dict[str, object], str]:
    if not isinstance(value, dict):
        msg = f"record {number:,} is no object"
        raise JsonRecordsError(msg)
    # In a text of JSON a line never breaks, so all these are between values.
    return value, text.replace("\n", " ").replace("\r", " ")


class _Text:
    """The text that was read and not used yet."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rest = b""
        self._text = ""
        self._at = 0
        self._ended = False
        self._begun = False

    def peek(self) -> str:
        """Return the next character that is no space; "" at the end."""
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
                # A number could go on in what is not read yet.
                if end < len(self._text) or self._ended:
                    begin, self._at = self._at, end
                    return value, self._text[begin:end]
            if len(self._text) - self._at > LONGEST_RECORD:
                msg = (
                    f"a record is longer than {LONGEST_RECORD:,} characters, or broken"
                )
                raise JsonRecordsError(msg)
            self._fill()

    def _is_broken(self, error: json.JSONDecodeError) -> bool:
        """Tell whether no further text could mend what *error* found."""
        # An unterminated string is reported at its start; a word such as "true" may
        # be cut.
        return not error.msg.startswith("Unterminated") and error.pos < (
            len(self._text) - _LONGEST_WORD
        )

    def _fill(self) -> None:
        # As much again as there is: a long record is not tried once for each chunk.
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
