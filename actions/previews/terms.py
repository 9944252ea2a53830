"""What an action says of how its runs go, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actions.previews.sentences import describe_duration
from models.fields.ping import name_monitor


def describe_terms(document: Mapping[str, Any]) -> tuple[str, ...]:
    """
    Return a sentence for each thing in which *document* departs from what is usual.

    Args:
        document: Of an action, as it is stored.

    >>> describe_terms({"name": "daily", "retries": 5, "retry_after": "PT1M"})
    ('Up to 5 retries, the first after 1 minute, then twice that.',)
    """
    return tuple(_describe(document))


def _describe(document: Mapping[str, Any]) -> Iterator[str]:
    if document.get("if"):
        yield "The steps after refresh run only if it brought something new."
    retries, after = document.get("retries"), document.get("retry_after")
    first = after and f"the first after {describe_duration(after)}, then twice that"
    match retries:
        case None:
            if first:
                yield f"Of its retries, {first}."
        case 0:
            yield "No retries: what fails once has failed."
        case 1:
            pause = after and f", after {describe_duration(after)}"
            yield f"At most 1 retry{pause or ''}."
        case _:
            yield f"Up to {retries} retries{(first and f', {first}') or ''}."
    expected = document.get("expect") or {}
    told = {"within": "end within {} of its time", "takes": "take at most {}"}
    said = [
        words.format(describe_duration(expected[key]))
        for key, words in told.items()
        if expected.get(key)
    ]
    if said:
        yield f"Expected to {' and to '.join(said)}; else a notice tells."
    failures = document.get("rest_after")
    if failures is not None:
        yield (
            "Paused as soon as a run fails."
            if failures == 1
            else f"Paused after {failures} failures in a row."
        )
    if document.get("ping"):
        host = name_monitor(document["ping"])
        yield f"{host} is told when a run starts, and how it ended."
