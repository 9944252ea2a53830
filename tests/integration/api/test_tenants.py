"""No tenant sees, changes or can tell the existence of what belongs to another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import db_now, writing
from models.database.tables import api_keys
from serving.access.callers import Role
from tests.integration.api.conftest import OTHER, Web
from tests.integration.api.documented import Route, Sample, find_routes
from tests.integration.api.prepared import Prepared, digest_tables, prepare
from tests.integration.api.test_examples import find_ids, send

ROUTES = [each for each in find_routes() if each.role and not each.is_endless]

#: Notes that a key was used, which is no change of anything.
OF_KEYS = frozenset({"api_keys"})


@pytest.fixture
def apps(free_web: Web, tmp_path: Path) -> tuple[Prepared, Prepared]:
    """Give the app that is asked for, and the one whose keys ask."""
    asked = prepare(free_web.engine, tmp_path, "shop", "Qshopq", is_documented=True)
    asking = prepare(free_web.engine, tmp_path, OTHER, "Qbooksq")
    return asked, asking


def find_foreign(route: Route, asked: Prepared, asking: Prepared) -> Iterator[Sample]:
    """Yield requests that name what belongs to *asked*, in path, query or body."""
    ours = find_ids(route, asking)
    theirs = find_ids(route, asked)
    theirs = {name: theirs[name] for name in ours if theirs[name] != ours[name]}
    for parameter in route.parameters:
        name = parameter["name"]
        if name not in theirs:
            continue
        if parameter["in"] == "path":
            yield from route.make_samples({**ours, name: theirs[name]})
        elif parameter["in"] == "query":
            for sample in route.make_samples(ours):
                yield replace(sample, query={**sample.query, name: theirs[name]})
    if "{app}" in route.path:
        yield from route.make_samples({**ours, **theirs})
    for sample in route.make_samples(ours):
        if sample.content and sample.headers["Content-Type"].endswith("json"):
            body = json.loads(sample.content)
            changed = _put(body, theirs)
            if changed != body:
                yield replace(sample, content=json.dumps(changed).encode())


def _put(body: Any, ids: dict[str, str]) -> Any:
    """Return *body*, whose members name what belongs to another app."""
    if isinstance(body, list):
        return [_put(each, ids) for each in body]
    if not isinstance(body, dict):
        return body
    return {
        name: ids[name] if name in ids and isinstance(value, str) else _put(value, ids)
        for name, value in body.items()
    }


def test_foreign_things_do_not_exist(free_web: Web, apps: tuple[Prepared, Prepared]):
    """404 (or an empty list) for whoever may use the route, 403 for whoever may not."""
    asked, asking = apps
    faults = []
    before = digest_tables(free_web.engine, but=OF_KEYS)
    for route in ROUTES:
        samples = [*find_foreign(route, asked, asking)]
        for role in Role:
            for sample in samples:
                answer = send(free_web, sample, free_web.keys[OTHER, role])
                text = answer.text + str(answer.headers)
                name = f"{route} {sample.path} {dict(sample.query)} {sample.content!r}"
                if asked.mark in text:
                    faults.append(f"{name}: shows {text[:300]}")
                is_fit = role >= Role(str(route.role))
                if not is_fit and answer.status_code != 403:
                    faults.append(f"{name} as {role}: {answer.status_code}")
                if is_fit and not _is_unknown(answer, sample):
                    told = f"{answer.status_code} {answer.text[:200]}"
                    faults.append(f"{name} as {role}: {told}")
    after = digest_tables(free_web.engine, but=OF_KEYS)
    faults += [f"changed: {each}" for each in before if before[each] != after[each]]
    if faults:
        pytest.fail("\n".join(faults))


def _is_unknown(answer: Any, sample: Sample) -> bool:
    if answer.status_code == 200 and sample.method == "GET":
        if not answer.headers["content-type"].startswith("application/json"):
            return not answer.content
        body = answer.json()
        return isinstance(body, dict) and not body.get("items", True)
    return bool(answer.status_code == 404)


def test_nothing_of_others_is_shown(free_web: Web, apps: tuple[Prepared, Prepared]):
    """Each route, asked about one's own, holds nothing that another app has written."""
    asked, asking = apps
    faults = []
    for route in ROUTES:
        for sample in route.make_samples(find_ids(route, asking)):
            answer = send(free_web, sample, free_web.keys[OTHER, Role.ADMIN])
            text = answer.text + str(answer.headers)
            if asked.mark in text:
                at = text.index(asked.mark)
                faults.append(f"{route} ({sample.name}): …{text[at - 200 : at + 50]}…")
    if faults:
        pytest.fail("\n".join(faults))


def test_lower_role_does_nothing(free_web: Web, apps: tuple[Prepared, Prepared]):
    """403, whatever is asked, and nothing is changed."""
    own, _ = apps
    faults = []
    before = digest_tables(free_web.engine, but=OF_KEYS)
    for route in ROUTES:
        for sample in route.make_samples(find_ids(route, own)):
            for role in [each for each in Role if each < Role(str(route.role))]:
                answer = send(free_web, sample, free_web.keys[own.app, role])
                if answer.status_code != 403:
                    faults.append(f"{route} as {role}: {answer.status_code}")

    if faults:
        pytest.fail("\n".join(faults))
    assert digest_tables(free_web.engine, but=OF_KEYS) == before


@pytest.mark.parametrize("kind", ["none", "revoked", "expired", "wrong"])
def test_nobody_is_let_in_without_a_valid_key(
    free_web: Web, apps: tuple[Prepared, Prepared], kind: str
):
    """401, and nothing is changed."""
    own, _ = apps
    key: str | None = free_web.keys[own.app, Role.ADMIN]
    if kind == "none":
        key = None
    elif kind == "wrong":
        key = f"{key}x"
    else:
        with writing(free_web.engine) as connection:
            column = {"revoked": "revoked_at", "expired": "expires_at"}[kind]
            connection.execute(sa.update(api_keys).values({column: db_now()}))
    before = digest_tables(free_web.engine, but=OF_KEYS)
    answers = {
        str(route): send(free_web, sample, key).status_code
        for route in ROUTES
        for sample in [*route.make_samples(find_ids(route, own))][:1]
    }

    assert {name: status for name, status in answers.items() if status != 401} == {}
    assert digest_tables(free_web.engine, but=OF_KEYS) == before
