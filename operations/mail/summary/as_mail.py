"""
The executive summary as HTML, and as plain text. Pure.

Styles are inline and there are no images, because mail programs drop other styles and
hide images. What is in ``style`` beside them is for those that know it: telephones, and
readers who like it dark.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment, PackageLoader, StrictUndefined

from operations.mail.summary.wording import FigureText, PartText, SummaryText

_TEMPLATE = Environment(
    loader=PackageLoader(__package__, ""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).get_template("page.html")


def make_html(summary: SummaryText) -> str:
    """Return the HTML part of the mail."""
    return _TEMPLATE.render(text=summary)


def make_text(summary: SummaryText) -> str:
    """Return the plain text part of the mail."""
    lines = [summary.subject, summary.instant, "", summary.overview]
    for part in summary.parts:
        lines += ["", *_write_part(part)]
    if summary.unpublished:
        lines += ["", summary.unpublished]
    lines += ["", summary.sent_by]
    return "\n".join(lines) + "\n"


def _write_part(part: PartText) -> Iterator[str]:
    yield part.title
    yield "-" * len(part.title)
    if part.description:
        yield part.description
    yield part.details
    if part.since:
        yield part.since
    yield from map(_write_figure, part.figures)
    if part.more_figures:
        yield part.more_figures


def _write_figure(figure: FigureText) -> str:
    told = filter(None, (figure.total, figure.change, figure.span))
    return f"  {figure.title} \N{EM DASH} {'; '.join(told)}"
