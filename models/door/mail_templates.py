"""
What is wrong with the text of a mail template. Pure.

Templates are read here and never compiled: while Jinja2 compiles, it computes what is
constant, and nobody limits how long that takes. Workers compile and render them in a
process of its own (operations/adapters/renderer.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import TokenStream

from models.door.json_text import find_line, make_pointer
from models.errors import Problem
from models.fields.strict_model import suggest
from models.small_app import TemplateModel

_LINE_END = re.compile(r"\r\n|\r")

_HINT = "Write {{ user.name }}, {% if %} ... {% endif %} and the like as Jinja2 has it."


#: Words and signs of all templates of a document that are read, which takes seconds;
#: of what is beyond, the workers tell.
_MOST_TOKENS = 100_000


class _TooMuchError(Exception):
    """There is more than is read here."""


class _Reader(Environment):
    """Jinja2, which knows at which character of a text it is, and when it is enough."""

    at = 0
    left = _MOST_TOKENS

    def _tokenize(
        self,
        source: str,
        name: str | None,
        filename: str | None = None,
        state: str | None = None,
    ) -> TokenStream:
        found = self.lexer.tokeniter(source, name, filename, state)
        tokens = self.lexer.wrap(self._follow(source, found), name, filename)
        return TokenStream(tokens, name, filename)

    def _follow(
        self, source: str, found: Iterator[tuple[int, str, str]]
    ) -> Iterator[tuple[int, str, str]]:
        end = self.at = 0
        for line, kind, text in found:
            self.at = max(source.find(text, end), end)
            end = self.at + len(text)
            self.left -= 1
            if self.left < 0:
                raise _TooMuchError
            yield line, kind, text
            self.at = end


def find_template_problems(
    templates: Mapping[str, TemplateModel],
) -> Iterator[Problem]:
    """Yield what is wrong with the templates of a small app, by their names."""
    reader = _Reader()
    for name, template in templates.items():
        for part in ("subject", "text", "html"):
            try:
                wrong = _find_mistake(reader, getattr(template, part) or "")
            except _TooMuchError:
                return
            if wrong is not None:
                yield Problem(make_pointer(["templates", name, part]), *wrong)


def _find_mistake(reader: _Reader, source: str) -> tuple[str, str] | None:
    """Return what is wrong with a text, with line and column, and what to write."""
    text = _LINE_END.sub("\n", source)
    try:
        tree = reader.parse(text)
    except TemplateSyntaxError as error:
        line, column = find_line(text, reader.at)
        said = (error.message or "it is no Jinja2").rstrip(".")
        return f"Line {line}, column {column}: {said}.", _HINT
    except RecursionError:
        return "It is nested too deeply.", "Write it with fewer brackets."
    except ValueError as error:  # a number with too many digits
        return f"{error}.", _HINT
    for kind, known in ((nodes.Filter, reader.filters), (nodes.Test, reader.tests)):
        for node in tree.find_all(kind):
            if node.name not in known:
                noun = kind.__name__.lower()
                told = f"Line {node.lineno}: there is no {noun} {node.name!r}."
                return told, suggest(node.name, known)
    return None
