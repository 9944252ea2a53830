"""A renderer, in this process and in one of its own, keeps its promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from operations.adapters.renderer import ChildRenderer
from operations.mail.message import Rendered, Template
from operations.ports import Renderer
from tests.unit.operations.fakes import FakeRenderer, failing


@pytest.fixture(params=["here", "child"])
def renderer(request: pytest.FixtureRequest) -> Iterator[Renderer]:
    """Give each renderer there is."""
    if request.param == "here":
        yield FakeRenderer()
        return
    made = ChildRenderer()
    yield made
    made.close()


def test_mails_come_in_the_order_of_the_recipients(renderer: Renderer) -> None:
    """Only HTML is escaped; what the template lacks, the mail lacks."""
    template = Template("t", "Hi {{ name }}", None, "<b>{{ name }}</b>")
    names = ("Ann", "<Ben>", "Çem")

    found = renderer.render(template, [{"name": name} for name in names])

    assert found == [
        Rendered("Hi Ann", None, "<b>Ann</b>"),
        Rendered("Hi <Ben>", None, "<b>&lt;Ben&gt;</b>"),
        Rendered("Hi Çem", None, "<b>Çem</b>"),
    ]


def test_nobody_is_no_mail(renderer: Renderer) -> None:
    """An empty list is as good as any other."""
    assert [] == renderer.render(Template("t", "s", "x", None), [])


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (Template("t", "s", "{{ nope }}", None), r"\(text.*'nope' is undefined"),
        (Template("t", "s", "{% if", None), r"\(text.*end of"),
        (Template("t", "s", "{{ ''.__class__ }}", None), r"\(text.*unsafe"),
        (Template("t", "s", None, None), "neither"),
    ],
)
def test_wrong_template_fails_for_good(
    renderer: Renderer, template: Template, why: str
) -> None:
    """For all recipients; it is told what is wrong where, and the next is rendered."""
    with failing(f"template 't'.*{why}", permanent=True):
        renderer.render(template, [{"name": "Ann"}, {"name": "Ben"}])

    assert 1 == len(renderer.render(Template("t", "s", "x", None), [{}]))
