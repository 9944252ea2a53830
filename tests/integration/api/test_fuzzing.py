"""
Whatever is sent, each route answers as the OpenAPI document says, and never with 5xx.

schemathesis makes the requests from the document: its examples, every bound of every
parameter and body, and what is just outside; then as many others as it is told. They
are the same in each run, for a seed. More: ``make test-api ARGS="--fuzz-seed 7"``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import sqlalchemy as sa
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, from_schema
from schemathesis.engine.events import (
    EngineEvent,
    FatalError,
    NonFatalError,
    ScenarioFinished,
)
from schemathesis.schemas import BaseSchema

from api.openapi import make_document
from cli.web_app import make_app
from models.role import Role
from serving.access.manage_keys import create_key
from serving.services import Services
from tests.database import write_by
from tests.integration.api.conftest import UNLIMITED, make_settings
from tests.integration.api.documented import find_routes
from tests.integration.api.prepared import prepare_two

#: What every answer must hold. That valid data is accepted is no check: whether a cron
#: rule can ever be due, no schema can say.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "missing_required_header",
    "ignored_auth",
)


#: A route whose body has the most bounds of all; a database hears of few of them.
LARGEST = "send_events"
LONG = 50

#: Several processes take the paths in shares, if bodies are sent, too: what one may be,
#: its model holds, and tests/unit/models; `make test` sends the examples.
SHARES = 3 if "MINUTEHAND_TEST_ALL" in os.environ else 1


@pytest.fixture
def app(engine: sa.Engine, tmp_path: Path) -> Any:
    """Give the application on a prepared installation; nobody is slowed down."""
    prepare_two(engine, tmp_path, is_documented=True)
    return make_app(Services(make_settings(tmp_path, engine), engine, UNLIMITED))


@schemathesis.serializer("application/x-ndjson")
def write_lines(_context: Any, value: Any) -> bytes:
    """Write a list as schemathesis cannot: an entry a line."""
    entries = value if isinstance(value, list) else [value]
    return "\n".join(map(json.dumps, entries)).encode()


def make_config(
    key: str, *, seed: int, examples: int, skipped: Collection[str] = ()
) -> SchemathesisConfig:
    """
    Return what schemathesis is to do; nothing is remembered between two runs.

    Args:
        key: With which it asks.

        seed: Of the requests beside the bounds.

        examples: How many there are of these, for each route.

        skipped: Names of routes whose bounds are not tried.
    """
    return SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "headers": {"Authorization": f"Bearer {key}"},
            "generation": {
                "deterministic": seed == 0,
                "max-examples": examples or 1,
                "no-shrink": True,
                "database": "none",
            },
            "phases": {
                "stateful": {"enabled": False},
                # Each example is sent by test_examples.py.
                "examples": {"enabled": False},
                "coverage": {
                    "unexpected-methods": ["trace", "put"],
                    "operation-ordering": "none",
                },
                "fuzzing": {"enabled": examples > 0},
            },
            # What stands in our code is nothing to send if nothing is made up.
            "analysis": {"constants": {"enabled": examples > 0}},
            "checks": {"enabled": False}
            | {name: {"enabled": True} for name in CHECKS}
            | {"missing_required_header": {"expected-statuses": [401, 422, 428]}},
            # Whoever asks may wait half a minute; nothing of what is asked ends.
            "parameters": {"query.wait": 0},
            "operations": [
                # An action may have the uid "batch", so its methods are possible there.
                {
                    "include-operation-id": "create_actions",
                    "checks": {
                        "allow_header_conformance": {"enabled": False},
                        "unsupported_method": {"enabled": False},
                    },
                },
                *[
                    {
                        "include-operation-id": sorted(skipped),
                        "phases": {"coverage": {"enabled": False}},
                    }
                ]
                * bool(skipped),
            ],
            "warnings": False,
        }
    )


def describe(event: EngineEvent) -> list[str]:
    """Return what went wrong, with a line for a shell that does it again."""
    if isinstance(event, FatalError):
        return [f"schemathesis ended: {event.exception!r}"]
    if isinstance(event, NonFatalError):
        return [f"{event.label}: {event.value!r}"]
    if not isinstance(event, ScenarioFinished) or event.status is not Status.FAILURE:
        return []
    return [
        f"{event.recorder.label}: {check.failure_info.failure.title}:"
        f" {check.failure_info.failure.message}\n  {check.failure_info.code_sample}"
        for checks in event.recorder.checks.values()
        for check in checks
        if check.failure_info is not None
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", range(SHARES))
def test_every_answer_is_as_documented(
    app: Any, engine: sa.Engine, request: pytest.FixtureRequest, share: int
):
    """For a key that may do everything."""
    endless = {each.path for each in find_routes() if each.is_endless}
    paths = sorted({each.path for each in find_routes()} - endless)
    mine = paths[share::SHARES]
    key = write_by(engine, create_key, app=None, role=Role.ADMIN).text
    examples = request.config.getoption("fuzz_examples")
    with_body = {each.name for each in find_routes() if each.takes_body}
    largest = {LARGEST} if examples < LONG else set()
    config = make_config(
        key,
        seed=request.config.getoption("fuzz_seed"),
        examples=examples,
        skipped=largest if examples else with_body,
    )
    schema: BaseSchema = schemathesis.openapi.from_dict(
        deepcopy(make_document()), config=config
    )
    schema.app = app
    for path in {*paths, *endless} - {*mine}:
        schema = schema.exclude(path=path)
    found: dict[str, None] = {}
    for event in from_schema(schema).execute():
        found |= dict.fromkeys(describe(event))

    if found:
        pytest.fail("\n\n".join(found))
