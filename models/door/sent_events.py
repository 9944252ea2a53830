"""Events as programs send them over HTTP, in each of the forms. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from models.door.documents import (
    LARGEST_BULK,
    read_cloud_event_object,
    read_each,
    read_events,
)
from models.door.json_text import decode_json
from models.errors import InvalidDocumentError, Problem
from models.event import CloudEventModel, UserEventModel
from models.fields.strict_model import show

#: Media types of CloudEvents: one, and a list of them.
ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"

#: The most events of one sending, which is one transaction.
MOST_EVENTS = 10_000


@dataclass(frozen=True, slots=True)
class SentEvents:
    """
    Events that were sent together.

    Args:
        is_list: Whether pointers begin with the number of the event, from 0.
    """

    events: tuple[UserEventModel | CloudEventModel, ...]
    is_list: bool


def read_cloud_events(text: str | bytes) -> tuple[CloudEventModel, ...]:
    """
    Return the CloudEvents of a JSON list, which may be empty; at most 32 MiB.

    Raises:
        InvalidDocumentError: With every problem. Pointers begin with the number of
            the event, from 0.
    """
    value = decode_json(text, largest=LARGEST_BULK)
    if not isinstance(value, list):
        hint = "Write a list, [...], or send it as application/cloudevents+json."
        msg = f"{show(value)} is not a list."
        raise InvalidDocumentError((Problem("", msg, hint),))
    if not value:
        return ()
    return read_each(value, read_cloud_event_object, "", most=MOST_EVENTS)


def read_cloud_event_headers(headers: Mapping[str, str]) -> CloudEventModel:
    """
    Return the CloudEvent that the headers of a request have (binary mode).

    Args:
        headers: Those of the request, with small letters in their names; the ones that
            do not begin with ``ce-`` are ignored.

    Raises:
        InvalidDocumentError: With every problem; pointers have the names of attributes.
    """
    given: dict[str, str] = {}
    for name, value in headers.items():
        if not name.startswith("ce-"):
            continue
        attribute = name.removeprefix("ce-")
        try:
            given[attribute] = unquote(value.strip(), errors="strict")
        except UnicodeDecodeError:
            msg = f"The header {name} is not UTF-8 once its percent signs are decoded."
            problem = Problem(f"/{attribute}", msg, "Encode it as UTF-8.")
            raise InvalidDocumentError((problem,)) from None
    return read_cloud_event_object(given)


def read_sent_events(headers: Mapping[str, str], body: bytes) -> SentEvents:
    """
    Return what was sent: CloudEvents in one of their three forms, or our own form.

    Args:
        headers: With small letters in their names. ``ce-specversion`` says that the
            event is in the headers (binary mode), else the type of the content counts.
        body: As ``read_cloud_events`` or ``read_events`` takes it.

    Raises:
        InvalidDocumentError: With every problem; or there are too many events.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if "ce-specversion" in headers:
        return SentEvents((read_cloud_event_headers(headers),), is_list=False)
    if kind == ONE:
        return SentEvents((read_cloud_event_object(decode_json(body)),), is_list=False)
    if kind == BATCH:
        return SentEvents(read_cloud_events(body), is_list=True)
    events = read_events(body, most=MOST_EVENTS)
    return SentEvents(events, len(events) != 1 or body.lstrip()[:1] == b"[")
