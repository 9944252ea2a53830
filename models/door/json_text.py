"""
JSON, checked before anything looks at what it says. Pure.

Stricter than ``json.loads``: a key may appear once, numbers are finite and of a
size that every reader agrees about, texts can be stored in any database, and nesting
has a bound. Nothing that people send here ends in a traceback.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from models.errors import InvalidDocumentError, Problem
from models.fields.strict_model import MOST_PROBLEMS, show

#: Bytes; more than any action needs. Small apps have a larger bound.
LARGEST_TEXT = 1024 * 1024

#: Levels of objects and lists; an action needs seven.
DEEPEST = 32

#: Bytes of a text, at least, for each entry that it may have: what is read takes far
#: more memory and time than its text, and that is by the entry. Users of a small app
#: have 25 bytes an entry, when all of their fields are as short as can be.
BYTES_PER_ENTRY = 20

#: JSON has no bounds for numbers, but databases and JavaScript do.
LARGEST_INTEGER = 2**63 - 1

_SURROGATE = re.compile(r"[\ud800-\udfff]")


class TextTooLargeError(InvalidDocumentError):
    """A text was refused for its size, unread."""


class _TwiceDict(dict[str, object]):
    """An object in which keys appear more than once."""

    repeated: frozenset[str] = frozenset()


class _HugeNumber(str):
    """The digits of an integer that is too large to be read."""

    __slots__ = ()


def decode_json(text: str | bytes, *, largest: int = LARGEST_TEXT) -> object:
    """
    Return the value that *text* is the JSON of.

    Args:
        text: JSON, as UTF-8 if it is bytes; a byte order mark is passed over.
        largest: Bytes accepted; they are counted before anything is read, and so are
            the entries of lists and objects.

    Raises:
        InvalidDocumentError: If it is not JSON, or JSON that ``check_json`` refuses.
    """
    read = _read_text(text, largest)
    _count_entries(read, largest // BYTES_PER_ENTRY)
    try:
        value = json.loads(
            read, object_pairs_hook=_make_object, parse_int=_make_integer
        )
    except json.JSONDecodeError as error:
        raise _restate(error) from None
    except RecursionError:
        message = f"It is nested more than {DEEPEST} levels deep."
        _refuse(message, "Flatten it.", _find_depth(read))

    check_json(value)
    return value


def check_json(value: object) -> None:
    """
    Refuse a decoded *value* that every reader would not agree about.

    Raises:
        InvalidDocumentError: If it contains NaN, an infinite or huge number, a NUL
            character, half a surrogate pair, a repeated key, a value that JSON does not
            have, or more than 32 levels.
    """
    found: list[Problem] = []
    _check(value, None, 1, found)
    if found:
        raise InvalidDocumentError(tuple(found))


def make_pointer(path: Sequence[str | int]) -> str:
    """
    Return the JSON pointer (RFC 6901) of *path*.

    >>> make_pointer(("operations", "a/b", 0))
    '/operations/a~1b/0'
    """
    return "".join(
        "/" + str(part).replace("~", "~0").replace("/", "~1") for part in path
    )


def _refuse(
    message: str, hint: str, place: tuple[int, int] | None = (1, 1)
) -> NoReturn:
    """Refuse the text as a whole."""
    raise InvalidDocumentError((Problem("", message, hint, place),))


#: A text in which brackets and commas do not count. Nothing of it is tried twice, also
#: if it never ends.
_TEXT = r'"(?:[^"\\]++|\\.)*+"?'
_TEXTS = re.compile(_TEXT, re.DOTALL)
_BRACKETS = re.compile(rf"{_TEXT}|[\[\]{{}}]", re.DOTALL)


def _count_entries(text: str, most: int) -> None:
    """Refuse a text with more than *most* entries, without reading it."""
    # Nearly every text has few, even with the commas in its texts. What else is left
    # out of the others takes a while, so they may not have too many texts either:
    # an entry has a key and a value at most, with two quotes each.
    if count_marks(text) <= most:
        return
    quotes = text.count('"') - text.count('\\"')
    if quotes > 4 * (most + 1) or count_marks(_TEXTS.sub("", text)) > most:
        msg = f"It has more than {most:,} entries of lists and objects."
        raise TextTooLargeError((Problem("", msg, "Split it up.", (1, 1)),))


def count_marks(text: str) -> int:
    """Return how many lists and objects begin, and entries follow others."""
    return text.count("[") + text.count("{") + text.count(",")


def _find_depth(text: str) -> tuple[int, int]:
    """Return line and column of the first bracket that is too deep."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > DEEPEST:
            return find_line(text, found.start())
    return 1, 1


def find_line(text: str, position: int) -> tuple[int, int]:
    """Return line and column, from 1, of a *position* in *text*."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def without_mark(text: str | bytes) -> str | bytes:
    """Return *text* without the byte order mark that some editors begin a file with."""
    if isinstance(text, bytes):
        return text.removeprefix(BOM_UTF8)
    return text.removeprefix("\ufeff")


def _read_text(text: str | bytes, largest: int) -> str:
    """Return *text* decoded; refuse one that is too long or empty."""
    size = len(text if isinstance(text, bytes) else text.encode(errors="replace"))
    if size > largest:
        msg = f"It is {size} bytes long; at most {largest} are accepted."
        hint = "Write less, or split it up."
        raise TextTooLargeError((Problem("", msg, hint, (1, 1)),))
    text = without_mark(text)
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            byte, at = text[error.start], error.start
            msg = f"It is not UTF-8: byte 0x{byte:02x} at position {at}."
            before = error.object[:at].decode()
            _refuse(msg, "Save the file as UTF-8.", find_line(before, len(before)))
    if not text.strip():
        _refuse("It is empty.", "Write one JSON object.")

    return text


def _make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value

    twice = _TwiceDict(value)
    counts = Counter(key for key, _ in pairs)
    twice.repeated = frozenset(key for key, count in counts.items() if count > 1)
    return twice


def _make_integer(digits: str) -> int | _HugeNumber:
    # Python itself refuses to read more than 4,300 digits.
    fits = len(digits) <= len("-9223372036854775808")
    return int(digits) if fits else _HugeNumber(digits)


#: What leads to a value from the whole, the last step first. None: it is the whole.
_Way = tuple[Any, str | int] | None


def _check(value: Any, way: _Way, depth: int, found: list[Problem]) -> None:
    """Add to *found* what is wrong with *value*, in document order."""
    is_object = isinstance(value, dict)
    if not is_object and not isinstance(value, list | tuple):
        told = _find_problem(value)
        if told is not None:
            _add(found, way, *told)
    elif depth > DEEPEST:
        msg = f"It is nested more than {DEEPEST} levels deep."
        _add(found, way, msg, "Flatten it.")
    else:
        for key, entry in value.items() if is_object else enumerate(value):
            if is_object and not _check_key(value, key, way, found):
                continue
            # most values are texts, of which most are fit
            if type(entry) is not str or _find_unfit(entry) is not None:
                _check(entry, (way, key), depth + 1, found)


def _check_key(
    value: dict[object, object], key: object, way: _Way, found: list[Problem]
) -> bool:
    """Add what is wrong with a key of an object; tell if its value can be looked at."""
    if not isinstance(key, str):
        _add(found, way, f"The key {show(key)} is not text.", "Write keys as text.")
        return False
    if isinstance(value, _TwiceDict) and key in value.repeated:
        msg = f"The key {show(key)} appears more than once."
        hint = "Keep one of them: readers disagree about which one counts."
        _add(found, (way, key), msg, hint, about_key=True)
    unfit = _find_unfit(key)
    if unfit is not None:
        # The pointer is that of the object: it could not show such a key.
        _add(found, way, f"A key contains {unfit}.", "Remove it.")
    return unfit is None


def _add(
    found: list[Problem], way: _Way, message: str, hint: str, *, about_key: bool = False
) -> None:
    """Add a problem, unless there are so many that no more are told."""
    if len(found) == MOST_PROBLEMS:
        return
    path: list[str | int] = []
    while way is not None:
        way, step = way
        path.append(step)
    pointer = make_pointer(path[::-1])
    found.append(Problem(pointer, message, hint, about_key=about_key))


def _find_problem(value: object) -> tuple[str, str] | None:
    """Return message and hint if *value*, which is not an object or list, is unfit."""
    if isinstance(value, str) and not isinstance(value, _HugeNumber):
        unfit = _find_unfit(value)
        return None if unfit is None else (f"The text contains {unfit}.", "Remove it.")
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, _HugeNumber | int):
        return _find_huge(value)
    if not isinstance(value, float):
        return f"{show(value)} is not a JSON value.", "Write text or a number."
    if not math.isfinite(value):
        return f"{value} is not a JSON number.", "Write a finite number or null."

    return None


def _find_huge(value: _HugeNumber | int) -> tuple[str, str] | None:
    if isinstance(value, int) and abs(value) <= LARGEST_INTEGER:
        return None

    # Python refuses to write out an integer of more than 4,300 decimal digits.
    digits = format(value, "x" if isinstance(value, int) and abs(value) >> 999 else "")
    msg = f"{digits[:40]} ({len(digits)} digits) is larger than {LARGEST_INTEGER}."
    return msg, "Write a number of at most 18 digits, or put it in quotes."


def _find_unfit(text: str) -> str | None:
    """Return what of *text* no database would store or no client could read, if any."""
    if text.isascii() and "\0" not in text:
        return None
    if "\0" in text:
        return f"a NUL character (\\u0000) at position {text.index(chr(0))}"

    half = _SURROGATE.search(text)
    if half is not None:
        return f"half a character (\\u{ord(half[0]):04x}) at position {half.start()}"

    return None


#: How Python says so since 3.13, at the comma and not behind it.
_LAST_COMMA = "Illegal trailing comma"

#: How Python's message begins, what we say instead, and the hint.
_DECODING = (
    (
        "Expecting property name",
        "a key in double quotes was expected",
        "Put keys in double quotes.",
    ),
    (_LAST_COMMA, "there is a comma after the last entry", "Remove it."),
    ("Expecting ':'", "a colon was expected after the key", 'Write "key": value.'),
    (
        "Expecting ','",
        "a comma or a closing bracket was expected",
        "Separate entries with commas, and close every bracket.",
    ),
    (
        "Unterminated string",
        "the text that begins here never ends",
        "Close it with a double quote.",
    ),
    (
        "Invalid control character",
        "a text contains a line break or control character",
        "Write \\n for a line break and \\t for a tab.",
    ),
    (
        "Invalid \\u",
        "\\u is not followed by four hexadecimal digits",
        "Write, for instance, \\u00e9.",
    ),
    (
        "Invalid \\escape",
        "a backslash is followed by a character that cannot be escaped",
        "For one backslash, write two.",
    ),
    (
        "Extra data",
        "something follows the end of the document",
        "Write one JSON value and nothing after it.",
    ),
    (
        "Expecting value",
        "a value was expected",
        "Write text in double quotes, a number, true, false, null, [...] or {...}.",
    ),
)


#: How comments begin in languages that have them.
_COMMENT = re.compile(r"//|/\*|#|--")


def format_place(place: tuple[int, int]) -> str:
    """Return how a message begins that names the *place* of a text that is no JSON."""
    line, column = place
    return f"Line {line}, column {column}: "


def move_to_line(problem: Problem, line: int) -> Problem:
    """Return *problem*, which a text of one line has, as that of the line *line*."""
    if problem.place is None:
        return problem
    place = (line, problem.place[1])
    said = problem.message.removeprefix(format_place(problem.place))
    return replace(problem, place=place, message=format_place(place) + said)


def _restate(error: json.JSONDecodeError) -> InvalidDocumentError:
    """Return *error* in our words: where, what was found, what to write instead."""
    if (comma := _find_last_comma(error)) is not None:
        error = json.JSONDecodeError(_LAST_COMMA, error.doc, comma)
    what, hint = "it is not JSON", "Write one JSON object."
    for begin, ours, ours_hint in _DECODING:
        if error.msg.startswith(begin):
            what, hint = ours, ours_hint
            break

    comment = _COMMENT.match(error.doc, error.pos)
    if comment is not None:
        what, hint = "JSON has no comments", "Remove it."
    rest = error.doc[error.pos : error.pos + 20].split("\n", 1)[0]
    found = f"found {show(rest)}" if rest else "the line ends there"
    if error.pos >= len(error.doc):
        found = "the document ends there"
    place = (error.lineno, error.colno)
    msg = f"{format_place(place)}{what}; {found}."
    return InvalidDocumentError((Problem("", msg, hint, place),))


def _find_last_comma(error: json.JSONDecodeError) -> int | None:
    """Return where the comma stands if *error* is one before a closing bracket."""
    before, bracket = error.doc[: error.pos].rstrip(), error.doc[error.pos :][:1]
    expected = {"}": "Expecting property name", "]": "Expecting value"}.get(bracket)
    if expected and error.msg.startswith(expected) and before.endswith(","):
        return len(before) - 1
    return None
