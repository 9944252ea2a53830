"""The executive summary as plain text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from operations.mail.summary.wording import FigureText, PartText, SummaryText


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
    told = [figure.total] if figure.total else []
    if figure.change is not None:
        told.append(figure.change.text)
    if figure.span:
        told.append(figure.span)
    return f"  {figure.title} \N{EM DASH} {'; '.join(told)}"
