"""The page at /docs, which people read instead of the OpenAPI document."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from api.openapi import make_document
from api.reference import read_style, render_reference

#: Elements without an end.
VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """What a page has: ids, links within, and elements that were never closed."""

    def __init__(self, text: str) -> None:
        """Read *text*."""
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to, and what it loads."""
        given = dict(attrs)
        assert not [name for name in given if name == "style" or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a" and (given["href"] or "").startswith("#"):
            self.links.append(str(given["href"])[1:])
        if tag in {"link", "script", "img", "iframe", "style"}:
            self.loaded.append(str(given.get("href") or given.get("src")))

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be a *tag*."""
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Give the document."""
    return make_document()


@pytest.fixture(scope="module")
def page(document: dict[str, Any]) -> str:
    """Give the page."""
    return render_reference(document)


def test_page_is_whole(page: str):
    """
    Each link within leads somewhere, no id is there twice, and nothing is left open.
    """
    found = Page(page)

    assert found.open == []
    assert sorted(found.ids) == sorted(set(found.ids))
    assert set(found.links) <= set(found.ids)


def test_page_loads_its_own_style_and_nothing_else(page: str):
    """
    No script, no font, no picture, and no word from elsewhere.
    """
    assert Page(page).loaded == ["/docs/reference.css"]
    assert not re.findall(r"(?:url\(|@import|https?://)", read_style())


def test_page_has_every_route_and_type(page: str, document: dict[str, Any]):
    """
    With a line for a shell.
    """
    routes = [each for item in document["paths"].values() for each in item.values()]
    types = document["components"]["schemas"]

    assert {each["operationId"] for each in routes} <= set(Page(page).ids)
    assert {f"type-{name}" for name in types} <= set(Page(page).ids)
    assert page.count("curl -sS") == len(routes)


def test_what_a_document_says_is_text(document: dict[str, Any]):
    """
    Words in the document make no elements, except code and emphasis.
    """
    route = {
        "operationId": "read_it",
        "summary": "<script>alert(1)</script> *now* ``a < b``",
        "description": "",
        "responses": {},
        "parameters": [
            {"name": "a", "in": "query", "schema": {"enum": ["<b>"]}, "example": "<i>"}
        ],
    }
    page = render_reference({**document, "paths": {"/x": {"get": route}}})

    assert "<script" not in page
    assert "<em>now</em> <code>a &lt; b</code>" in page
    assert "<code>&lt;b&gt;</code>" in page


def test_line_for_a_shell_quotes(document: dict[str, Any]):
    """
    An apostrophe in an example does not end the argument; other examples follow.
    """
    route = {
        "operationId": "make_it",
        "summary": "",
        "description": "",
        "security": [{"key": []}],
        "responses": {},
        "parameters": [{"name": "id", "in": "path", "schema": {}, "example": "a b"}],
        "requestBody": {
            "content": {
                "application/json": {
                    "schema": {},
                    "examples": {
                        "one": {"value": {"name": "it's"}},
                        "other": {"value": {"name": "b"}},
                    },
                }
            }
        },
    }
    page = render_reference({**document, "paths": {"/x/{id}": {"post": route}}})
    (line,) = re.findall(r"curl -sS[^<]*", page)
    others = re.findall(r"<summary>([^<]*)</summary>", page)

    assert others == ["Body: other"]

    assert line.splitlines() == [
        "curl -sS -X POST \\",
        "  --oauth2-bearer &#34;$KEY&#34; \\",
        "  -H &#39;Content-Type: application/json&#39; \\",
        "  --data-binary &#39;{",
        "  &#34;name&#34;: &#34;it&#39;&#34;&#39;&#34;&#39;s&#34;",
        "}&#39; \\",
        "  &#34;$WEB/x/a%20b&#34;",
    ]
