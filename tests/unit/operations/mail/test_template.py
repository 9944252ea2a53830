"""Mail templates."""

from __future__ import annotations

import pytest

from models.errors import StepError
from operations.mail.message import Template
from operations.mail.template import MailTemplate

USER = {"user": {"name": "<b>Ann</b>"}}


def render(subject: str = "s", text: str | None = "t", html: str | None = None):
    return MailTemplate(Template("hello", subject, text, html)).render(USER)


def test_html_is_escaped_and_text_is_not():
    """A name is never markup in HTML, and stays as it is in plain text."""
    rendered = render(text="{{ user.name }}", html="{{ user.name }}")

    assert ("<b>Ann</b>", "&lt;b&gt;Ann&lt;/b&gt;") == (rendered.text, rendered.html)


def test_subject_is_one_line():
    """Line breaks cannot begin a header of somebody's choice."""
    rendered = render(subject="Hi\r\nBcc: all@x.org\n")

    assert "Hi Bcc: all@x.org" == rendered.subject


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ user.age }}", "has no attribute 'age'"),
        ("{{ usr }}", "'usr' is undefined"),
        ("{% if %}", "Expected an expression"),
        ("{{ ().__class__.__mro__ }}", "unsafe"),
        ("{{ user.update({}) }}", "unsafe"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'a' + 1 }}", "can only concatenate"),
        ("{% for i in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "longer than"),
        ("{{ range(999999999) }}", "[Rr]ange too big"),
        ("{{ " + "(" * 50_000 + ")" * 50_000 + " }}", "nested too deeply"),
        (
            "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
            "too many statically nested blocks$",
        ),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "calls itself without end"),
        ("{{ 7 ** 99999 }}", "digits"),
    ],
)
def test_bad_template_is_permanent_and_named(source: str, reason: str):
    """What a template may do wrong is told with its name and part."""
    with pytest.raises(StepError, match=f"(?s)template 'hello' .text.*{reason}") as e:
        render(text=source)

    assert e.value.permanent


@pytest.mark.parametrize(
    "source",
    [
        "{% if %}",
        "{{ " + "9" * 5_000 + " }}",
        "{{ usr }}",
        "{{ 1 / 0 }}",
        "{% macro m() %}{{ usr }}{% endmacro %}{{ m() }}",
    ],
)
def test_line_of_a_mistake_is_told(source: str):
    """Whether it shows when it is compiled or when it is rendered."""
    with pytest.raises(StepError, match="text, line 2"):
        render(text=f"Hello,\n{source}\n")


def test_template_without_body_is_refused():
    """Neither text nor HTML is no mail."""
    with pytest.raises(StepError, match="neither text nor html"):
        render(text=None)
