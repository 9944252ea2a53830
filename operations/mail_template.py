"""
Mail templates: Jinja2 in a sandbox, for templates are written by admins. Pure.

A template sees texts, numbers and times, never an object of ours, and what it
makes is bounded. The time and memory it takes are not: the sandbox cannot bound
them, the limits of the worker process do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from models.errors import StepError
from operations.mail import Template

#: Characters a part may have; a mail beyond this is refused by most servers anyway.
LONGEST = 2_000_000

#: What RFC 5322 allows a header line, so that a subject never has to be folded oddly.
LONGEST_SUBJECT = 998


@dataclass(frozen=True, slots=True)
class Rendered:
    """A mail's parts; the subject is one line, at least one body part is there."""

    subject: str
    text: str | None
    html: str | None


class MailTemplate:
    """A template of a small app, compiled once and rendered for each recipient."""

    def __init__(self, template: Template) -> None:
        """
        Compile the parts of *template*.

        Raises:
            StepError: Permanent: no body, or a part that is no Jinja2.
        """
        if template.text is None and template.html is None:
            msg = f"template {template.name!r} has neither text nor html."
            raise StepError(msg, permanent=True)

        self._name = template.name
        plain = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, autoescape=False
        )
        escaping = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, autoescape=True
        )
        self._parts = {
            "subject": self._compile(plain, "subject", template.subject),
            "text": self._compile(plain, "text", template.text),
            "html": self._compile(escaping, "html", template.html),
        }

    def _compile(
        self, sandbox: ImmutableSandboxedEnvironment, part: str, source: str | None
    ) -> Any:
        if source is None:
            return None
        try:
            return sandbox.from_string(source)
        except TemplateError as error:
            raise self._explain(part, error) from error

    def _explain(self, part: str, error: Exception) -> StepError:
        line = getattr(error, "lineno", None)
        where = f"{part}, line {line}" if line else part
        msg = f"template {self._name!r} ({where}): {str(error) or type(error).__name__}"
        return StepError(msg, permanent=True)

    def render(self, values: Mapping[str, object]) -> Rendered:
        """
        Return the mail for *values*.

        Args:
            values: Texts, numbers, times, and dicts and lists of them.

        Raises:
            StepError: Permanent: a name that is not there, something the sandbox
                forbids, an empty subject, a part that is too long.
        """
        subject = self._render("subject", values) or ""
        # A line break would begin a header of the recipient's choice.
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
                    msg = f"longer than {LONGEST:,} characters"
                    raise SecurityError(msg)
        # What a template may raise: its own errors, and Python's from a wrong
        # operand, index, filter argument or format.
        except (
            TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
            RecursionError,
            MemoryError,
        ) as error:
            raise self._explain(part, error) from error
        return "".join(pieces)
