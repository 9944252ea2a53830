"""The page at /docs, as a stranger's browser gets it."""

from __future__ import annotations

from tests.integration.api.conftest import Web


def test_page_is_for_everybody_and_runs_nothing(web: Web):
    """No key; and the policy lets a browser load nothing."""
    page = web.client.get("/docs")

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


def test_document_is_for_everybody(web: Web):
    """The same that is committed, so that a client can be made from either."""
    answer = web.client.get("/openapi.json")

    assert answer.status_code == 200
    assert answer.json()["openapi"] == "3.1.0"
    assert "/api/v1/actions" in answer.json()["paths"]
