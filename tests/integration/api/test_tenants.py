"""No tenant sees, changes or can tell the existence of what belongs to another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import api_keys
from models.role import Role
from tests.database import execute
from tests.integration.api.conftest import OTHER, Web
from tests.integration.api.documented import Route, Sample, find_routes
from tests.integration.api.prepared import Prepared, digest_tables, prepare_two
from tests.integration.api.test_examples import find_ids, send

ROUTES = [each for each in find_routes() if each.role and not each.is_endless]

#: Notes that a key was used, which is no change of anything.
OF_KEYS = frozenset({"api_keys"})


@pytest.fixture
def apps(free_web: Web, tmp_path: Path) -> tuple[Prepared, Prepared]:
    """Give the app that is asked for, and the one whose keys ask."""
    return prepare_two(free_web.engine, tmp_path, is_documented=True)


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


def make_up(route: Route, asked: Prepared, asking: Prepared) -> dict[str, str]:
    """Return, for each id of *asked*, one that looks like it and names nothing."""
    ours, theirs = find_ids(route, asking), find_ids(route, asked)
    return {
        text: re.sub("[0-9a-f]{8}", "0" * 8, text).replace(asked.app, "never")
        if re.search(f"{asked.app}|[0-9a-f]{{8}}", text)
        else f"never-{name}"
        for name, text in theirs.items()
        if name in ours and text != ours[name]
    }


def _name(text: str, ids: Mapping[str, str]) -> str:
    """Return *text* with the ids that stand beside those of it."""
    for theirs, never in ids.items():
        text = re.sub(rf"\b{re.escape(theirs)}\b", never, text)
    return text


def _find_difference(web: Web, sample: Sample, never: Mapping[str, str]) -> str | None:
    """Return how the answer differs from that about what never was."""
    content = None if sample.content is None else sample.content.decode()
    twin = replace(
        sample,
        path=_name(sample.path, never),
        query={name: _name(text, never) for name, text in sample.query.items()},
        content=None if content is None else _name(content, never).encode(),
    )
    key = web.keys[OTHER, Role.ADMIN]
    told, unknown = (
        f"{answer.status_code} {json.loads(answer.content or '{}').get('detail')}"
        for answer in (send(web, sample, key), send(web, twin, key))
    )
    told = _name(told, never)
    return None if told == unknown else f"{told}, and of what never was {unknown}"


def test_foreign_things_do_not_exist(free_web: Web, apps: tuple[Prepared, Prepared]):
    """
    404 (or an empty list) for whoever may use the route, in the words for what never
    was; 403 for whoever may not.
    """
    asked, asking = apps
    faults = []
    before = digest_tables(free_web.engine, but=OF_KEYS)
    for route in ROUTES:
        samples = [*find_foreign(route, asked, asking)]
        never = make_up(route, asked, asking)
        faults += [
            f"{route} {sample.path}: {differs}"
            for sample in samples
            if (differs := _find_difference(free_web, sample, never))
        ]
        least = Role(str(route.role))
        for role in (least, *(each for each in Role if each < least)):
            for sample in samples:
                answer = send(free_web, sample, free_web.keys[OTHER, role])
                text = answer.text + str(answer.headers)
                name = f"{route} {sample.path} {dict(sample.query)} {sample.content!r}"
                if asked.mark in text:
                    faults.append(f"{name}: shows {text[:300]}")
                is_fit = role is least
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


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/keys", {"role": "viewer", "app": OTHER}),
        ("/bulk", {"kind": "pause", "filter": {"app": OTHER}, "dry_run": True}),
        ("/mails/test", {"app": OTHER, "template": "report", "to": "ada"}),
    ],
)
def test_app_that_an_example_leaves_out_is_unknown_too(
    free_web: Web, path: str, body: dict[str, Any]
):
    """In the body, as where the examples name it."""
    never = json.loads(json.dumps(body).replace(OTHER, "never"))

    taken, unknown = (free_web.post(path, each) for each in (body, never))

    assert (404, 404) == (taken.status_code, unknown.status_code)
    assert taken.json()["detail"].replace(OTHER, "never") == unknown.json()["detail"]


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


def test_nobody_is_let_in_without_a_valid_key(
    free_web: Web, apps: tuple[Prepared, Prepared]
):
    """401 with none, a wrong, a revoked or an expired one, and nothing is changed."""
    own, _ = apps
    keys = {role: free_web.keys[own.app, role] for role in Role}
    kinds: dict[str, str | None] = {
        "none": None,
        "wrong": f"{keys[Role.ADMIN]}x",
        "revoked": keys[Role.ADMIN],
        "expired": keys[Role.EDITOR],
    }
    for kind, column in (("revoked", "revoked_at"), ("expired", "expires_at")):
        key_id = str(kinds[kind]).split("_")[1]
        end = sa.update(api_keys).where(api_keys.c.id == key_id)
        execute(free_web.engine, end.values({column: db_now()}))
    before = digest_tables(free_web.engine, but=OF_KEYS)
    answers = {
        (str(route), kind): send(free_web, sample, key).status_code
        for route in ROUTES
        for sample in [*route.make_samples(find_ids(route, own))][:1]
        for kind, key in kinds.items()
    }

    assert {name: status for name, status in answers.items() if status != 401} == {}
    assert digest_tables(free_web.engine, but=OF_KEYS) == before
