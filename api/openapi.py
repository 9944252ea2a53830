"""
The OpenAPI document: made from the routes, completed with what all of them share.

``python -m api.openapi`` writes it to docs/openapi.json, which is committed, so that a
change of what clients rely on is seen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from api.guarding import Body, GuardedRoute
from api.problems import MEDIA_TYPE, ProblemJson
from api.routes import PUBLIC_ROUTERS, ROUTERS

_REFERENCE = "#/components/schemas/{model}"

#: What any route with a key may answer beside its own answers.
_ALWAYS = (400, 401, 403, 404, 422, 429, 503)
#: What a route that takes a body may answer.
_OF_BODIES = (408, 413, 415)
#: What a change may answer.
_OF_CHANGES = (409,)
#: What a change of one version may answer.
_OF_VERSIONS = (412, 428)

_DESCRIPTION = """
Scheduled actions of small apps, and what became of them.

Send a key as `Authorization: Bearer mh_...` (`minutehand keys create`). Times are
RFC 3339 in UTC, durations ISO 8601. What is refused is answered with problem details
(RFC 9457), whose `errors` say where, what, and what to write instead.
"""


def describe(app: FastAPI) -> None:
    """Let *app* give our document instead of FastAPI's."""

    def make() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = make_document()
        return app.openapi_schema

    app.openapi = make  # type: ignore[method-assign]  # as its documentation says


def make_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of all routes."""
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
    _add_schema(schemas, "ProblemJson", TypeAdapter(ProblemJson).json_schema)
    for route in routes:
        for method in sorted(route.methods or ()):
            described = document["paths"][route.path_format][method.lower()]
            if isinstance(route, GuardedRoute):
                _complete(described, route, method, schemas)
            else:
                described["security"] = []
                described["responses"].pop("422", None)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def find_routes() -> Iterator[APIRoute]:
    """Yield every route that the document has."""
    for router in (*PUBLIC_ROUTERS, *ROUTERS):
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                yield route


def _complete(
    described: dict[str, Any],
    route: GuardedRoute,
    method: str,
    schemas: dict[str, Any],
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
    reference = {"$ref": _REFERENCE.format(model="ProblemJson")}
    for status in sorted(statuses):
        described["responses"][str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": reference}},
        }


def _describe_body(body: Body, schemas: dict[str, Any]) -> dict[str, Any]:
    schema = body.schema
    if not isinstance(schema, dict):
        model = schema
        _add_schema(schemas, model.__name__, model.model_json_schema)
        schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    examples = {name: {"value": value} for name, value in body.examples.items()}
    return {
        "required": body.required,
        "content": {
            kind: {"schema": schema, "examples": examples} for kind in body.types
        },
    }


def _add_schema(schemas: dict[str, Any], name: str, make: Any) -> None:
    """Add a schema with all that it refers to."""
    made = make(ref_template=_REFERENCE, mode="validation")
    schemas.update(made.pop("$defs", {}))
    schemas[name] = made


if __name__ == "__main__":
    json.dump(make_document(), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
