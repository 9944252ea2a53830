"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^ +>>> ", re.MULTILINE)
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for top in (
        *ROOT.glob("*.py"),
        *(path.parent for path in ROOT.glob("*/__init__.py")),
    )
    for path in ([top] if top.is_file() else top.rglob("*.py"))
    if EXAMPLE.search(path.read_text())
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name: str) -> None:
    """Who copies an example into a shell sees what the docstring shows."""
    module = importlib.import_module(name.removesuffix(".__init__"))

    result = doctest.testmod(module, optionflags=doctest.REPORT_NDIFF)

    assert result.attempted > 0
    assert result.failed == 0
