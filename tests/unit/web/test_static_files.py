"""The style sheet and the script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from web.static_files import STATIC

TEMPLATES = Path(__file__).parents[3] / "web" / "templates"


def test_script_is_short():
    """
    It is ours, and read by whoever mends it at night.
    """
    assert STATIC["script.js"].content.count(b"\n") < 400


def test_nothing_is_loaded_from_elsewhere():
    """
    Neither by the style, nor by the script, nor by a page.
    """
    texts = [each.content.decode() for each in STATIC.values()]
    texts += [path.read_text() for path in TEMPLATES.rglob("*.html")]

    for text in texts:
        own = text.replace("http://www.w3.org/", "")
        assert not re.search(r"(src|href)=\"https?:|@import|url\((?!#)", own)


@pytest.mark.parametrize(
    "path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name
)
def test_page_has_neither_script_nor_style_in_it(path: Path):
    """
    The policy of the pages forbids both, so they would not work.
    """
    text = path.read_text()

    assert not re.search(r"<script>|<style|\sstyle=|\son[a-z]+=", text)
    assert "| safe" not in text
