"""
The OpenAPI document: made from the routes, completed with what all of them share.

``make openapi`` writes it to docs/openapi.json, which is committed, so that a change of
what clients rely on is seen in review; a test holds it to the routes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from api.guarding import ApiRoute
from api.parameters import KNOWN
from api.routes import PUBLIC_ROUTERS, ROUTERS
from models.door.action_schema import describe
from serving.guarding import Body
from serving.refusals import MEDIA_TYPE, ProblemJson, name_status

_ROOT = Path(__file__).parents[1]

#: What clients were promised.
COMMITTED = _ROOT / "docs" / "openapi.json"

_REFERENCE = "#/components/schemas/{model}"

#: What any route with a key may answer beside its own answers.
_ALWAYS = (400, 401, 403, 404, 422, 429, 503)
#: What a route that takes a body may answer.
_OF_BODIES = (408, 413, 415)
#: What a change may answer.
_OF_CHANGES = (409,)
#: What a change of one version may answer.
_OF_VERSIONS = (412, 428)
_ANY = {*_ALWAYS, *_OF_BODIES, *_OF_CHANGES, *_OF_VERSIONS}

#: Parts of a schema that are values, whatever their members are called.
_VALUES = frozenset({"const", "default", "enum", "example", "examples", "value"})

_DESCRIPTION = """
Scheduled actions of small apps, and what became of them.

Send a key as `Authorization: Bearer mh_...` (`minutehand keys create`). Times are
RFC 3339 in UTC, durations ISO 8601. What is refused is answered with problem details
(RFC 9457), whose `errors` say where, what, and what to write instead.
"""


@cache
def make_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of all routes, made once: it takes long."""
    routes = [*find_routes()]
    document = get_openapi(
        title="Minutehand",
        version=version("minutehand"),
        description=_DESCRIPTION.strip(),
        routes=routes,
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "bearerFormat": "mh_…"}
    }
    _add_schema(schemas, ProblemJson)
    for route in routes:
        for method in sorted(route.methods or ()):
            described = document["paths"][route.path_format][method.lower()]
            _name(described, route)
            if isinstance(route, ApiRoute):
                _complete(described, route, method, schemas)
            else:
                described["security"] = []
                described["responses"].pop("422", None)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["responses"] = {
        _name_problem(HTTPStatus(status)): {
            "description": name_status(HTTPStatus(status)),
            "content": {
                MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="ProblemJson")}}
            },
        }
        for status in sorted(_ANY)
    }
    _drop_titles(document["paths"])
    _drop_titles(schemas)
    for schema in schemas.values():
        if "description" in schema:
            describe(schema)
    return document


def find_routes() -> Iterator[APIRoute]:
    """Yield every route that the document has."""
    for router in (*PUBLIC_ROUTERS, *ROUTERS):
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                yield route


def _complete(
    described: dict[str, Any], route: ApiRoute, method: str, schemas: dict[str, Any]
) -> None:
    described["security"] = [{"key": []}]
    described["x-role"] = route.role.value
    statuses = [*_ALWAYS]
    if method != "GET":
        statuses += _OF_CHANGES
    if route.takes is not None:
        statuses += _OF_BODIES
        described["requestBody"] = _describe_body(route.takes, schemas)
    if method in {"PUT", "PATCH", "DELETE"}:
        statuses += _OF_VERSIONS
        described.setdefault("parameters", []).append(
            {
                "name": "If-Match",
                "in": "header",
                "required": True,
                "schema": {"type": "string"},
                "description": "The ETag of what you read, or `*`.",
                "example": "*",
            }
        )
    elif any(each["name"] == "if-match" for each in described.get("parameters", ())):
        statuses.append(HTTPStatus.PRECONDITION_FAILED.value)
    if method == "POST":
        described.setdefault("parameters", []).append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
                "description": "For repeats: kept for 24 hours with the first answer.",
            }
        )
    for status in sorted(statuses):
        name = _name_problem(HTTPStatus(status))
        described["responses"][str(status)] = {"$ref": f"#/components/responses/{name}"}


def _name(described: dict[str, Any], route: APIRoute) -> None:
    """Give a route its name and words, and its parameters what FastAPI leaves out."""
    described["operationId"] = route.endpoint.__name__
    text = inspect.cleandoc(route.endpoint.__doc__ or "")
    described["summary"] = " ".join(text.partition("\n\n")[0].split()).rstrip(".")
    described["description"] = text
    for status, answer in described["responses"].items():
        if answer["description"] == "Successful Response":
            answer["description"] = name_status(HTTPStatus(int(status)))
    for parameter in described.get("parameters", ()):
        schema = parameter["schema"]
        # Said of the parameter already.
        schema.pop("description", None)
        alternatives = schema.get("anyOf", ())
        if parameter["in"] == "query" and {"type": "null"} in alternatives:
            # It may be left out; there is no way to write null into a query.
            left = [each for each in alternatives if each != {"type": "null"}]
            del schema["anyOf"]
            schema.update(left[0] if len(left) == 1 else {"anyOf": left})
        given = schema.pop("examples", None)
        if given and "example" not in parameter and "examples" not in parameter:
            parameter["example"] = given[0]
        if known := KNOWN.get(parameter["name"]):
            example, description = known
            parameter.setdefault("description", description)
            # An empty list says that no example would work at all times.
            if "examples" not in parameter and given is None:
                parameter.setdefault("example", example)


def _name_problem(status: HTTPStatus) -> str:
    return name_status(status).replace(" ", "")


def _drop_titles(part: Any) -> None:
    """Remove the titles that repeat the names of what they stand at."""
    if isinstance(part, list):
        for each in part:
            _drop_titles(each)
    elif isinstance(part, dict):
        if isinstance(part.get("title"), str):
            del part["title"]
        for name, each in part.items():
            if name not in _VALUES:
                _drop_titles(each)


def _describe_body(body: Body, schemas: dict[str, Any]) -> dict[str, Any]:
    schema = body.schema
    if not isinstance(schema, dict):
        schema = _add_schema(schemas, schema)
    return {
        "required": body.required,
        "content": {
            kind: {
                "schema": schema,
                "examples": {
                    name: {"value": value}
                    for name, value in body.others.get(kind, body.examples).items()
                },
            }
            for kind in body.types
        },
    }


def _add_schema(schemas: dict[str, Any], shape: Any) -> dict[str, Any]:
    """Add what *shape* refers to, and return its schema: of a class, where that is."""
    made = TypeAdapter(shape).json_schema(ref_template=_REFERENCE)
    schemas.update(made.pop("$defs", {}))
    if not isinstance(shape, type):
        return made
    schemas[shape.__name__] = made
    return {"$ref": _REFERENCE.format(model=shape.__name__)}


def to_text(document: dict[str, Any]) -> str:
    """Return *document* as it is committed: a line for each value, in a fixed order."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    COMMITTED.write_text(to_text(make_document()), "utf-8")
