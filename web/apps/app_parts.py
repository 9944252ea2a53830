"""
The parts of a small app as fields of one form: what each entry has, read and written.

Pure, and no judge: what the fields say becomes a document, which the door reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from models.door.json_text import decode_json, make_pointer
from models.errors import InvalidDocumentError
from web.editor.draft import write_text
from web.forms import Form

Entry = dict[str, Any]
Entries = dict[str, Entry]

#: Two days of a holiday that lasts longer, as people write it.
_RANGE = re.compile(r"(\S+)\s*(?:\.\.|\bto\b|\buntil\b|\s-\s)\s*(\S+)")


@dataclass(frozen=True, slots=True)
class PartField:
    """
    A field of an entry.

    Args:
        path: Of its value in the entry, with dots; its name in the form, too.
        kind: text, area; list: with commas; days: a line each; box; json: an object.
    """

    path: str
    label: str
    kind: str = "text"
    hint: str = ""


@dataclass(frozen=True, slots=True)
class AppPart:
    """
    A part of a small app, which is edited by entries.

    Args:
        noun: What an entry is called.
        fields: Of an entry; the first one names it.
        loss: What is lost when an entry is deleted.
    """

    noun: str
    fields: tuple[PartField, ...]
    loss: str = ""


_DAY_OR_TIME = "such as 2027-01-01T00:00:00Z"

_SETTINGS = (
    PartField("name", "Name"),
    PartField("timezone", "Time zone", hint="such as Europe/Paris"),
    PartField("mail.from_name", "Mails are from, by name"),
    PartField(
        "mail.from_address", "Mails are from, by address", hint="if the operator lets"
    ),
    PartField("mail.reply_to", "Answers go to"),
    PartField("mail.unsubscribe", "Unsubscribe at", hint="https://... or mailto:..."),
    PartField("mail.locale", "Language of who has none", hint="such as fr-CH"),
    PartField("notices.mail", "Notices of failures go to", "list", "with commas"),
    PartField("notices.webhook", "and to the address", hint="https://..."),
    PartField("documents.design", "Design, as JSON", "json"),
    PartField("documents.permissions", "Permissions, as JSON", "json"),
)

#: By what they are called in the document, but for ``settings``.
PARTS: Mapping[str, AppPart] = {
    "settings": AppPart("settings", _SETTINGS),
    "users": AppPart(
        "user",
        (
            PartField("id", "Id", hint="often the mail address"),
            PartField("email", "Mail address"),
            PartField("name", "Name"),
            PartField("locale", "Language", hint="such as en or fr-CH"),
            PartField("groups", "Groups", "list", "with commas; new ones are made"),
            PartField("disabled", "Disabled: gets no mail", "box"),
            PartField("expires_at", "Account ends", hint=_DAY_OR_TIME),
            PartField("created_at", "Account made", hint=_DAY_OR_TIME),
            PartField("activated_at", "Account activated", hint=_DAY_OR_TIME),
            PartField("last_seen_at", "Last seen", hint=_DAY_OR_TIME),
        ),
        "They are removed from their groups, and get no mail any more.",
    ),
    "domains": AppPart(
        "domain",
        (
            PartField("name", "Name"),
            PartField("source.file", "From the file", hint="below the app's folder"),
            PartField("source.url", "or from the address", hint="https://..."),
            PartField("source.sql", "or by the query", "area"),
            PartField(
                "source.connection",
                "on the connection",
                hint="as the operator has named it",
            ),
            PartField(
                "source.format",
                "In the format",
                hint="csv, json, jsonl, ndjson or parquet; empty: by its ending",
            ),
            PartField("title", "Title in the summary"),
            PartField("description", "Description in the summary"),
            PartField(
                "columns",
                "Columns in the summary, as JSON",
                "json",
                'such as {"amount": {"title": "Turnover", "unit": "€", "sum": true}}',
            ),
        ),
        "All versions of its data are removed, the live one too.",
    ),
    "templates": AppPart(
        "template",
        (
            PartField("name", "Name"),
            PartField("subject", "Subject"),
            PartField("text", "Text", "area", "Jinja2, such as Hello {{ user.name }}"),
            PartField("html", "HTML", "area"),
        ),
        "Mails that use it fail.",
    ),
    "holidays": AppPart(
        "calendar of holidays",
        (
            PartField("name", "Name", hint="such as fr"),
            PartField(
                "days", "Days", "days", "one a line, or 2026-12-24 to 2026-12-31"
            ),
        ),
        "It becomes empty, since actions may still name it.",
    ),
}

#: Of a new small app.
NEW_APP = AppPart(
    "small app",
    (
        PartField("uid", "Uid", hint="such as shop: letters, digits, '-', '.' and '_'"),
        *_SETTINGS[:2],
    ),
)


def list_entries(document: Mapping[str, Any], part: str) -> Entries:
    """Return the entries of a *part* of the document of a small app, by name."""
    found: Any = document.get(part)
    match part:
        case "settings":
            return {"": dict(document)}
        case "templates":
            return {name: {"name": name, **each} for name, each in found.items()}
        case "holidays":
            return {name: {"name": name, "days": each} for name, each in found.items()}
        case _:
            return {each["name"]: each for each in found}


def make_document(uid: str, part: str, entries: Entries) -> Entry:
    """Return the document of a small app with *entries* as its only *part*."""
    match part:
        case "settings":
            heads = {each.path.partition(".")[0] for each in PARTS[part].fields}
            found: Any = {head: entries[""].get(head) for head in heads}
            return {"uid": uid, **found}
        case "templates":
            found = {
                name: {key: value for key, value in each.items() if key != "name"}
                for name, each in entries.items()
            }
        case "holidays":
            found = {name: each.get("days", []) for name, each in entries.items()}
        case _:
            found = [*entries.values()]
    return {"uid": uid, part: found}


def show_entry(part: AppPart, entry: Mapping[str, Any]) -> Form:
    """Return the fields that say *entry*."""
    return Form(
        tuple(
            (each.path, _show(each, _get(entry, each.path)))
            for each in part.fields
            if each.kind != "box" or _get(entry, each.path)
        )
    )


def _get(entry: Mapping[str, Any], path: str) -> Any:
    head, _, rest = path.partition(".")
    value = entry.get(head)
    return _get(value, rest) if rest and isinstance(value, Mapping) else value


def _show(each: PartField, value: Any) -> str:
    match each.kind:
        case "list":
            return ", ".join(value or ())
        case "days":
            return "\n".join(
                f"{day['from']} to {day['until']}" if isinstance(day, dict) else day
                for day in value or ()
            )
        case "json" if value is not None:
            return write_text(value)
        case _:
            return "" if value is None else str(value)


def read_entry(
    fields: Iterable[PartField], form: Form, stored: Mapping[str, Any]
) -> Entry:
    """
    Return *stored* with what *fields* say; what has no field stays.

    Raises:
        InvalidDocumentError: A field holds no JSON.
    """
    entry = dict(stored)
    for each in fields:
        head, _, rest = each.path.partition(".")
        value = _read(each, form)
        if rest:
            inside = {**(entry.get(head) or {}), rest: value}
            value = {key: kept for key, kept in inside.items() if kept is not None}
        entry[head] = value
    return entry


def _read(each: PartField, form: Form) -> Any:
    text = form.get(each.path)
    match each.kind:
        case "box":
            return form.has(each.path)
        case "list":
            return [word.strip() for word in text.split(",") if word.strip()] or None
        case "days":
            return [*map(_read_day, filter(str.strip, text.splitlines()))]
        case "json" if text:
            try:
                return decode_json(text)
            except InvalidDocumentError as error:
                told = (replace(e, pointer=f"/{each.path}") for e in error.problems)
                raise InvalidDocumentError((*told,)) from None
        case _:
            return text or None


def _read_day(line: str) -> str | dict[str, str]:
    found = _RANGE.fullmatch(line.strip())
    return {"from": found[1], "until": found[2]} if found else line.strip()


def find_pointer(part: str, entries: Iterable[str], name: str) -> str:
    """Return what leads to the entry *name* in the document that the door reads."""
    match part:
        case "settings" | "users":
            return ""
        case "domains":
            return make_pointer([part, [*entries].index(name)])
        case _:
            return make_pointer([part, name])


def place_problems(
    part: AppPart, pointer: str, error: InvalidDocumentError
) -> InvalidDocumentError:
    """Return *error* with fields for pointers; *pointer* leads to their entry."""
    paths = [each.path for each in part.fields]
    placed = []
    for each in error.problems:
        path = each.pointer.removeprefix(pointer).strip("/").replace("/", ".")
        is_here = each.pointer.startswith(pointer)
        steps = path.split(".")
        # Days have neither names nor fields of their own.
        names = [path, ".".join(steps[:2]), steps[0], "days"] if is_here else []
        found = next((name for name in names if name in paths), None)
        message = each.message if is_here else f"{each.pointer}: {each.message}"
        pointer_now = "" if found is None else f"/{found}"
        placed.append(replace(each, pointer=pointer_now, message=message))
    return InvalidDocumentError((*placed,))
