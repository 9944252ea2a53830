"""The reference, as a stranger's browser gets it."""

from __future__ import annotations

import json

from api.openapi import COMMITTED
from tests.integration.api.conftest import Web


def test_reference_is_for_everybody_and_runs_nothing(web: Web):
    """
    No key; the policy lets a browser load nothing. Its document is the one that is
    committed, so that a client can be made from either.
    """
    page, document = web.client.get("/docs"), web.client.get("/openapi.json")

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].split("; ") == [
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "<code>PUT /api/v1/actions/{uid}</code></dt><dd>" in page.text
    assert document.json() == json.loads(COMMITTED.read_text())
