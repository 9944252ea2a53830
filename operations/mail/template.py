"""
Mail templates: Jinja2 in a sandbox, because admins write them. Pure.

A template sees texts, numbers and times, never our objects, and the length of its
output is limited. Its time and memory are not: no sandbox in Python can limit them. So
workers render in a process that has limits (operations/adapters/renderer.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from traceback import walk_tb
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.lexer import Lexer
from jinja2.sandbox import ImmutableSandboxedEnvironment

from models.errors import StepError
from operations.mail.message import Rendered, Template

#: Characters that a part may have; most servers would refuse a longer mail anyway.
LONGEST = 2_000_000

#: Memory and CPU time that rendering may take; the renderer must enforce them. A mail
#: of ``LONGEST`` characters takes a tenth of that memory, and a millisecond.
MEMORY_BYTES = 256 << 20
CPU_S = 5

#: The longest header line in RFC 5322: a subject never has to be folded in odd places.
LONGEST_SUBJECT = 998


#: Characters of an error, which may quote output of the template.
_LONGEST_ERROR = 500

#: Errors that a template may raise: those of Jinja2, and those of Python for a wrong
#: operand, index, filter argument or format, deep nesting, or a number that is too big.
_MISTAKES = (
    *(TemplateError, SyntaxError, TypeError, ValueError, ArithmeticError),
    *(LookupError, AttributeError, RecursionError, MemoryError),
)


class MailTemplate:
    """A template of a small app, compiled once and rendered for each recipient."""

    def __init__(self, template: Template) -> None:
        """
        Compile the parts of *template*.

        Raises:
            StepError: Permanent: no body, or a part that is not Jinja2.
        """
        if template.text is None and template.html is None:
            msg = f"template {template.name!r} has neither text nor html."
            raise StepError(msg, permanent=True)

        self._name = template.name
        self._parts = {
            part: self._compile(part, getattr(template, part))
            for part in ("subject", "text", "html")
        }

    def _compile(self, part: str, source: str | None) -> Any:
        if source is None:
            return None
        sandbox = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, autoescape=part == "html"
        )
        try:
            return sandbox.from_string(source)
        except _MISTAKES as error:
            raise self._explain(part, error) from error

    def _explain(self, part: str, error: Exception) -> StepError:
        line = _find_line(error)
        where = f"{part}, line {line}" if line else part
        # Python's own errors of syntax name a line of what Jinja2 made of it.
        said = str(getattr(error, "msg", error))[:_LONGEST_ERROR]
        said = said or type(error).__name__
        if isinstance(error, MemoryError):
            said = (
                f"it needs more than {MEMORY_BYTES >> 20} MiB of memory. Make less text"
            )
        elif isinstance(error, RecursionError):
            said = "it is nested too deeply, or a macro calls itself without end"
        msg = f"template {self._name!r} ({where}): {said}"
        return StepError(msg, permanent=True)

    def render(self, values: Mapping[str, object]) -> Rendered:
        """
        Return the mail for *values*.

        Args:
            values: Texts, numbers, times, and dicts and lists of these.

        Raises:
            StepError: Permanent: the template uses an unknown name, does something that
                the sandbox forbids, makes a part too long, or needs too much memory.
        """
        subject = self._render("subject", values) or ""
        # A line break would start a new header, with content that a user could choose.
        subject = " ".join(subject.split())[:LONGEST_SUBJECT]
        return Rendered(
            subject, self._render("text", values), self._render("html", values)
        )

    def _render(self, part: str, values: Mapping[str, object]) -> str | None:
        template = self._parts[part]
        if template is None:
            return None
        pieces: list[str] = []
        length = 0
        try:
            for piece in template.generate(values):
                pieces.append(piece)
                length += len(piece)
                if length > LONGEST:
                    raise SecurityError(f"it is longer than {LONGEST:,} characters")
        except _MISTAKES as error:
            raise self._explain(part, error) from error
        return "".join(pieces)


def _find_line(error: Exception) -> int | None:
    """Return the line of the template that was read, or rendered, as *error* came."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line = None
    for frame, number in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == "<template>":
            line = number
        elif frame.f_code is Lexer.wrap.__code__:
            line = frame.f_locals["lineno"]
    return line
