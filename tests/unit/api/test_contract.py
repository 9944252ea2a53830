"""Which differences of two OpenAPI documents break clients."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from api.contract import HEADING, compare_documents, find_unnamed

THING = "#/components/schemas/Thing"


def make_document(**changes: Any) -> dict[str, Any]:
    """Return a document with one path, whose route and type have *changes*."""
    thing = {
        "type": "object",
        "required": ["id", "state"],
        "properties": {
            "id": {"type": "integer"},
            "state": {"type": "string", "enum": ["on", "off"]},
            "note": {"anyOf": [{"type": "string", "maxLength": 10}, {"type": "null"}]},
            "inner": {"type": "array", "items": {"$ref": THING}},
        },
    }
    route = {
        "x-role": "operator",
        "parameters": [
            {"name": "limit", "in": "query", "schema": {"type": "integer"}},
            {
                "name": "state",
                "in": "query",
                "schema": {"type": "string", "enum": ["on", "off"]},
            },
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": THING}}},
        },
        "responses": {
            "200": {"content": {"application/json": {"schema": {"$ref": THING}}}},
            "404": {"content": {}},
        },
    }
    return {
        "paths": {"/things": {"post": route | changes}},
        "components": {"schemas": {"Thing": thing}},
    }


def compare_things(change: Any) -> list[str]:
    """Return what breaks by what *change* does to the type of body and answer."""
    old, new = make_document(), make_document()
    change(new["components"]["schemas"]["Thing"])
    return compare_documents(old, new)


def test_same_document_breaks_nothing():
    """
    A type that holds itself has an end, too.
    """
    assert compare_documents(make_document(), make_document()) == []


def test_path_and_method_must_stay():
    """
    What is gone answers 404 or 405.
    """
    gone, other = make_document(), make_document()
    gone["paths"] = {}
    other["paths"]["/things"]["put"] = other["paths"]["/things"].pop("post")

    assert compare_documents(make_document(), gone) == ["POST /things is gone"]
    assert compare_documents(make_document(), other) == ["POST /things is gone"]


def test_what_is_new_breaks_nobody():
    """
    Clients bear new paths, parameters, members of answers and optional ones of bodies.
    """
    new = make_document()
    new["paths"]["/others"] = deepcopy(new["paths"]["/things"])
    route = new["paths"]["/things"]["post"]
    route["parameters"].append({"name": "new", "in": "query", "schema": {}})
    route["responses"]["202"] = {}
    thing = new["components"]["schemas"]["Thing"]
    thing["properties"]["new"] = {"type": "string"}

    assert compare_documents(make_document(), new) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"x-role": "admin"}, "POST /things needs the role admin"),
        ({"x-role": "viewer"}, None),
        ({"responses": {}}, "POST /things no longer answers 200"),
        (
            {"responses": {"200": {"content": {}}}},
            "POST /things answers 200 as application/json is gone",
        ),
        ({"requestBody": None}, "POST /things body is gone"),
        (
            {"requestBody": {"content": {"text/csv": {"schema": {}}}}},
            "POST /things body as application/json is gone",
        ),
    ],
)
def test_route_keeps_its_promises(changes: dict[str, Any], told: str | None):
    """
    Its role, its body and its answers are what they were, or take more.
    """
    found = compare_documents(make_document(), make_document(**changes))

    assert found == ([told] if told else [])


@pytest.mark.parametrize(
    ("parameter", "told"),
    [
        (None, "is gone"),
        ({"schema": {"type": "integer"}, "required": True}, "is required"),
        ({"schema": {"type": "boolean"}}, "no longer takes integer"),
        ({"schema": {"type": "integer", "maximum": 9}}, "has maximum 9"),
        ({"schema": {"type": "integer", "enum": [1]}}, "takes certain values only"),
        ({"schema": {"type": "number"}}, None),
        ({"schema": {"type": ["string", "integer"]}}, None),
    ],
)
def test_parameter_takes_what_it_took(
    parameter: dict[str, Any] | None, told: str | None
):
    """
    One that is refused, demanded or narrower breaks who sent it.
    """
    new = make_document()
    route = new["paths"]["/things"]["post"]
    rest = route["parameters"][1:]
    if parameter is not None:
        rest.append({"name": "limit", "in": "query", **parameter})
    route["parameters"] = rest
    found = compare_documents(make_document(), new)

    assert found == ([f"POST /things query parameter limit {told}"] if told else [])


def test_new_parameter_must_not_be_required():
    """
    Nobody sends it yet.
    """
    new = make_document()
    new["paths"]["/things"]["post"]["parameters"].append(
        {"name": "app", "in": "query", "required": True, "schema": {}}
    )

    assert compare_documents(make_document(), new) == [
        "POST /things query parameter app is required"
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda thing: thing["properties"].pop("id"),
            ["body.id is gone", "answers 200.id is gone"],
        ),
        (
            lambda thing: thing["required"].append("note"),
            ["body.note is required"],
        ),
        (
            lambda thing: thing["required"].remove("id"),
            ["answers 200.id may now be left out"],
        ),
        (
            lambda thing: thing["properties"]["state"]["enum"].remove("off"),
            ["body.state no longer takes 'off'"],
        ),
        (lambda thing: thing["properties"]["state"]["enum"].append("new"), []),
        (
            lambda thing: thing["properties"].update(id={"type": "string"}),
            ["body.id no longer takes integer", "answers 200.id may now be string"],
        ),
        (
            lambda thing: thing["properties"].update(id={"type": ["integer", "null"]}),
            ["answers 200.id may now be null"],
        ),
        (
            lambda thing: thing["properties"].update(note={"type": "string"}),
            ["body.note no longer takes null"],
        ),
        (
            lambda thing: thing["properties"]["note"]["anyOf"][0].update(maxLength=5),
            ["body.note has maxLength 5"],
        ),
        (
            lambda thing: thing.update(additionalProperties=False),
            ["body no longer takes further members"],
        ),
    ],
)
def test_type_is_judged_by_the_way_it_goes(change: Any, told: list[str]):
    """
    What is sent must be taken as before; what is read must be there as before.
    """
    found = compare_things(change)

    assert found == [f"POST /things {each}" for each in told]


def test_break_is_found_however_deep():
    """
    The items of a list count like the whole.
    """
    found = compare_things(
        lambda thing: thing["properties"]["inner"].update(items={"type": "string"})
    )

    assert "POST /things answers 200.inner[] may now be string" in found


def test_changelog_names_breaks_word_for_word():
    """
    Only below the heading, only of what is not released, and wrapped as one likes.
    """
    breaks = ["GET /a is gone", "POST /b body.c is required", "GET /d is gone"]
    changelog = f"""# Changelog

## Unreleased

### Added

- GET /d is gone

{HEADING}

- `GET /a is gone`: nobody asked it.
- `POST /b body.c
  is required`

### Fixed

## 0.1.0

{HEADING}

- GET /d is gone
"""

    assert find_unnamed(breaks, changelog) == ["GET /d is gone"]
