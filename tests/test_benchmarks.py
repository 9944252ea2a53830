"""The schedulers of the benchmarks, whose libraries the tests do not have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.case import PEERS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PEERS_FOLDER = Path(__file__).parents[1] / "benchmarks" / "peers"


@pytest.mark.parametrize("name", PEERS)
def test_every_scheduler_can_be_asked_for(name: str) -> None:
    """
    Its file has its class, and says what is driven; the page of the benchmarks names
    it, spaced and spelled as its own authors do.
    """
    module, kind = PEERS[name]
    tree = ast.parse((PEERS_FOLDER / f"{module}.py").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8").lower().replace(" ", "-")

    assert kind in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert ast.get_docstring(tree)
    assert f"|-{name}" in page or f"|-**{name}" in page or f",-{name}" in page
