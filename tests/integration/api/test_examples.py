"""The examples of the OpenAPI document work, and what they change is on record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa

from models.database.tables import changes
from models.role import Role
from tests.integration.api.conftest import Web
from tests.integration.api.documented import Route, Sample, find_routes
from tests.integration.api.prepared import Prepared, prepare

#: What the example of a route is about, where that of others is not in the right state.
#: Several: one for each example.
SUBJECTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cancel_operation": {"operation_id": ("pending", "queued")},
    "retry_operation": {"operation_id": ("failed heavy", "failed")},
    "end_key": {"key_id": ("key 1",)},
    "replace_key": {"key_id": ("key 2", "key 3")},
    "delete_app": {"app": ("empty app",)},
    "pause_action": {"uid": ("report", "publishing")},
    "put_member": {"user": ("zoe",)},
    "run_action": {"uid": ("report", "publishing")},
    "resume_one_worker": {"worker_id": ("drained worker",)},
}

#: Change nothing, although they are not GET.
READ_ONLY = frozenset({"preview", "preview_mails"})

#: Make many things, each of which the answer names.
MANY = frozenset({"create_actions"})
#: A key is in the list of keys, and has no address of its own.
NO_PLACE = MANY | {"make_key", "replace_key"}

#: The order in which examples are sent: what takes things away comes last.
ORDER = ("GET", "POST", "PATCH", "PUT", "DELETE")


@dataclass(frozen=True)
class Sent:
    """
    An example that was sent.

    Args:
        located: What is at the Location of the answer. None: it has none.
    """

    route: Route
    sample: Sample
    answer: httpx2.Response
    located: httpx2.Response | None

    def __str__(self) -> str:
        return f"{self.route} ({self.sample.name})"


def send(web: Web, sample: Sample, key: str | None) -> httpx2.Response:
    """Send an example with a key, or without one."""
    headers = dict(sample.headers)
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return web.client.request(
        sample.method,
        sample.path,
        params=dict(sample.query),
        headers=headers,
        content=sample.content,
        follow_redirects=False,
    )


def is_dry(sample: Sample) -> bool:
    """Tell whether an example only asks what would be done."""
    asked = b'"dry_run": true' in (sample.content or b"")
    return asked or sample.query.get("dry_run") == "true"


def find_ids(route: Route, prepared: Prepared, number: int = 0) -> dict[str, str]:
    """Return what to put for the parameters of example *number* of a route."""
    subjects = SUBJECTS.get(route.name, {})
    return prepared.find_ids(
        {name: each[min(number, len(each) - 1)] for name, each in subjects.items()}
    )


@pytest.fixture
def sent(free_web: Web, tmp_path: Path) -> list[Sent]:
    """Send every example to a prepared installation, with a key for all of it."""
    prepared = prepare(free_web.engine, tmp_path, "shop", "Qshopq", is_documented=True)
    return [*_send_all(free_web, prepared)]


def _rank(route: Route) -> tuple[int, int]:
    """Return the place of a route: what takes away is last, inner before outer."""
    return ORDER.index(route.method), -len(route.path)


def _send_all(web: Web, prepared: Prepared) -> Iterator[Sent]:
    for route in sorted(find_routes(), key=_rank):
        if route.is_endless:
            continue
        count = len([*route.make_samples(prepared.ids)])
        for number in range(count):
            ids = find_ids(route, prepared, number)
            sample = [*route.make_samples(ids)][number]
            key = web.keys[None, Role.ADMIN]
            answer = send(web, sample, key)
            located = None
            if location := answer.headers.get("location"):
                read = Sample("made", "GET", location, {}, {}, None)
                located = send(web, read, key)
            yield Sent(route, sample, answer, located)


@pytest.mark.slow
def test_examples_are_answered_as_documented(free_web: Web, sent: list[Sent]):
    """What is made is where the answer says, and each change is on record."""
    # one test: sending them all takes longer than everything that is said of them
    faults = [
        *_find_undocumented(sent),
        *_find_misplaced(sent),
        *_find_unrecorded(free_web, sent),
    ]
    if faults:
        pytest.fail("\n".join(faults))


def _find_undocumented(sent: list[Sent]) -> Iterator[str]:
    """Want 2xx or 3xx, and an answer that has what its type names, nothing else."""
    for each in sent:
        if each.answer.status_code >= 400:
            yield f"{each}: {each.answer.status_code} {each.answer.text[:300]}"
        else:
            yield from (f"{each}: {one}" for one in each.route.find_faults(each.answer))


def _find_misplaced(sent: list[Sent]) -> Iterator[str]:
    """201 has a Location, and whoever asks at a Location finds it."""
    for each in sent:
        is_made = each.answer.status_code == 201 and each.route.name not in NO_PLACE
        if is_made and each.located is None:
            yield f"{each}: has no Location"
        if each.located is not None and each.located.status_code != 200:
            where = each.answer.headers["location"]
            yield f"{each}: {where} answers {each.located.status_code}"


def _find_unrecorded(web: Web, sent: list[Sent]) -> Iterator[str]:
    """Each change names the key and the request that made it."""
    with web.engine.connect() as connection:
        rows = connection.execute(sa.select(changes.c.request_id, changes.c.key_id))
        noted = {row.request_id: row.key_id for row in rows}
    key_id = web.keys[None, Role.ADMIN].split("_")[1]
    for each in sent:
        is_change = each.route.method != "GET" and each.route.name not in READ_ONLY
        if each.answer.status_code >= 400 or not is_change or is_dry(each.sample):
            continue
        if noted.get(each.answer.headers["x-request-id"]) != key_id:
            yield f"{each}: not on record"
