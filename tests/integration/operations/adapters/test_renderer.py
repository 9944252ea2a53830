"""Hostile templates, rendered by real processes with real limits."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from models.errors import StepError
from operations.adapters.renderer import ChildRenderer
from operations.mail.message import Template
from tests.servers import find_children
from tests.unit.operations.fakes import failing

VALUES = {"user": {"name": "Ann"}, "now": datetime(2026, 11, 23, tzinfo=UTC)}


@pytest.fixture
def renderer() -> Iterator[ChildRenderer]:
    renderer = ChildRenderer()
    yield renderer
    renderer.close()


def find_renderers() -> list[psutil.Process]:
    return find_children("operations.adapters.render_child")


def test_mails_are_rendered_by_one_process(renderer: ChildRenderer):
    """In the order of the recipients, template after template, by the same process."""
    template = Template("hello", "Hi {{ user.name }}", "{{ now.year }}", "<i>é</i>")
    recipients = [{**VALUES, "user": {"name": name}} for name in ("Ann", "\ud800<b>")]

    first = renderer.render(template, recipients)
    pids = [child.pid for child in find_renderers()]
    again = renderer.render(template, recipients)

    assert ["Hi Ann", "Hi \ud800<b>"] == [mail.subject for mail in first]
    assert [("2026", "<i>é</i>")] * 2 == [(mail.text, mail.html) for mail in first]
    assert first == again
    assert pids == [child.pid for child in find_renderers()]
    assert 1 == len(pids)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 10**9 }}",
        "{{ '%0999999999d'|format(1) }}",
        "{{ ('x' * 10**6)|replace('x', 'x' * 10**4) }}",
        "{{ range(99999)|map('string')|map('center', 99999)|list|pprint }}",
        "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('x' * 999) }}",
        "{% set x %}{% for i in range(9**5) %}{{ 'x' * 9999 }}{% endfor %}{% endset %}",
    ],
)
def test_gigabytes_are_refused(renderer: ChildRenderer, source: str):
    """The template fails for good, by name and bound; the next one is rendered."""
    with failing(r"template 'greedy'.*(256 MiB|s of CPU)", permanent=True):
        renderer.render(Template("greedy", "s", source, None), [VALUES])
    rendered = renderer.render(Template("hello", "s", "Hi", None), [VALUES])

    assert ["Hi"] == [mail.text for mail in rendered]


def test_hours_of_computing_are_refused():
    """Also in C code, which no signal handler interrupts, and while it is compiled."""
    renderer = ChildRenderer(cpu_s=0.5)
    template = Template("slow", "s", "{{ 10**(10**8) }}", None)
    with failing(r"template 'slow'.*0.5 s of CPU time", permanent=True):
        renderer.render(template, [VALUES])


def test_mails_of_a_step_are_bounded_together(renderer: ChildRenderer):
    """A worker holds them all until the last is rendered."""
    template = Template("long", "s", "{{ 'x' * 1999999 }}", None)

    with pytest.raises(StepError, match="60 mails together are longer"):
        renderer.render(template, [VALUES] * 60)


def test_process_that_was_killed_is_replaced(renderer: ChildRenderer):
    """Whoever kills one that waits costs nothing."""
    template = Template("hello", "s", "Hi", None)
    renderer.render(template, [VALUES])
    (child,) = find_renderers()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()

    assert ["Hi"] == [mail.text for mail in renderer.render(template, [VALUES])]


def test_process_is_killed_at_the_deadline_and_that_may_pass():
    """A machine that is too busy is not the template's fault."""
    renderer = ChildRenderer(deadline=timedelta(microseconds=1))

    with failing("not rendered within", permanent=False):
        renderer.render(Template("hello", "s", "Hi", None), [VALUES])

    assert [] == find_renderers()


def test_threads_do_not_wait_for_each_other(renderer: ChildRenderer):
    """Each template that is rendered has a process; what is idle is used again."""
    both = threading.Barrier(2)

    def render(name: str) -> str | None:
        both.wait(timeout=30)
        template = Template(name, "s", "{{ user.name }}", None)
        return renderer.render(template, [VALUES] * 500)[-1].text

    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(render, ("a", "b")))

    assert ["Ann", "Ann"] == texts
    assert 2 >= len(find_renderers())


def test_process_knows_none_of_our_secrets(
    renderer: ChildRenderer, monkeypatch: pytest.MonkeyPatch
):
    """It is where a template would be that left the sandbox."""
    monkeypatch.setenv("MINUTEHAND_WEBHOOK_SECRET", "hush")
    renderer.render(Template("hello", "s", "Hi", None), [VALUES])
    (child,) = find_renderers()

    assert b"hush" not in Path(f"/proc/{child.pid}/environ").read_bytes()
