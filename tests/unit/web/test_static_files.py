"""The style sheet and the script."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from models.operation_state import Mark, OperationState
from operations.operation_log import LogLevel
from web.charts import Outcome
from web.rendering import STATIC

WEB = Path(__file__).parents[3] / "web"

#: Classes that templates put together: how each begins, and what follows.
COMPOSED: Mapping[str, Collection[str]] = {
    "s-": {*OperationState, *Mark, "planned", "paused", "inactive", "quarantined"},
    "h-": {each.name.lower() for each in Outcome},
    "lv-": {*LogLevel},
    # what is shaded on the line of minutes: web/now/minute_rail.py
    "t-": {"bad", "lost"},
    "f-": {"bad-tint", "lost-tint"},
}


def test_script_is_short():
    """It is ours, and read by whoever mends it at night."""
    assert STATIC["script.js"].content.count(b"\n") < 400


def test_every_class_of_the_style_is_used():
    """By a template, the script, or what hands words to them."""
    style = STATIC["style.css"].content.decode()
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    selectors = re.findall(r"([^{}]+){", style)
    classes = set(re.findall(r"\.([a-zA-Z][\w-]*)", " ".join(selectors)))
    files = [path for path in WEB.rglob("*") if path.suffix in {".html", ".js", ".py"}]
    text = "\n".join(path.read_text() for path in files)
    words = set(re.findall(r"[\w-]+", text))
    composed = {f"{begin}{end}" for begin, ends in COMPOSED.items() for end in ends}

    assert [begin for begin in COMPOSED if f"{begin}{{{{" not in text] == []
    assert sorted(classes - words - composed) == []


def test_nothing_is_loaded_from_elsewhere():
    """Neither by the style, nor by the script, nor by a page."""
    texts = [each.content.decode() for each in STATIC.values()]
    texts += [path.read_text() for path in WEB.rglob("*.html")]

    for text in texts:
        own = text.replace("http://www.w3.org/", "")
        assert not re.search(r"(src|href)=\"https?:|@import|url\((?!#)", own)


def test_pages_have_neither_script_nor_style_in_them():
    """The policy of the pages forbids both, so they would not work."""
    texts = {path: path.read_text() for path in WEB.rglob("*.html")}
    wrong = re.compile(r"<script>|<style|\sstyle=|\son[a-z]+=|\| safe")

    assert len(texts) > 50
    assert [] == [path for path, text in texts.items() if wrong.search(text)]
