"""
The executive summary as HTML, and as plain text. Pure.

Styles are inline and there are no images, because mail programs drop other styles and
hide images. What is in ``style`` beside them is for those that know it: telephones, and
readers who like it dark.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment, StrictUndefined

from operations.mail.summary.wording import FigureText, PartText, SummaryText

_PAGE = """\
{%- set cell = "padding:8px 0 8px 10px;border-bottom:1px solid #e5e8ec;font-size:14px;"
  "vertical-align:top" -%}
{%- set head = "padding:6px 0 6px 10px;border-bottom:2px solid #cbd2d9;font-size:12px;"
  "font-weight:600;color:#52606d;vertical-align:bottom" -%}
{%- set first = ";padding-left:0" -%}
{%- set table = "width:100%;border-collapse:collapse" -%}
{%- set small = "font-size:13px;line-height:1.45;color:#52606d" -%}
<!doctype html>
<html lang="{{ text.lang }}">
<head><meta charset="utf-8"><title>{{ text.subject }}</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<style>
:root{color-scheme:light dark}
@media (max-width:480px){
.page{padding:0!important}
.sheet{border-width:0!important;border-radius:0!important}
.band{border-radius:0!important}
.band,.body,.foot{padding-left:16px!important;padding-right:16px!important}
}
@media (prefers-color-scheme:dark){
.page{background:#12181f!important}
.sheet,.body,.foot{background:#1b242d!important;color:#e4e7eb!important;
border-color:#323f4b!important}
.cell,.head{border-color:#3e4c59!important}
.soft,.head{color:#9fb3c8!important}
.before{background:#627d98!important}
.now{background:#7cc4fa!important}
}
</style></head>
<body class="page" style="margin:0;padding:24px;background:#f5f7fa;color:#1f2933;
font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif">
<div class="sheet" style="max-width:680px;margin:0 auto;background:#ffffff;
overflow-wrap:break-word;border:1px solid #e5e8ec;border-radius:8px">
<div class="band" style="padding:24px 28px;background:#243b53;color:#ffffff;
border-radius:8px 8px 0 0">
<div style="font-size:13px;color:#bcccdc">{{ text.kicker }}</div>
<h1 style="margin:4px 0 0;font-size:22px;line-height:1.25;overflow-wrap:anywhere">
{{- text.app_name }}</h1>
<div style="margin-top:4px;font-size:13px;color:#bcccdc">{{ text.instant }}</div>
</div>
<div class="body" style="padding:20px 28px 24px">
<p style="margin:0;font-size:16px;line-height:1.45">{{ text.overview }}</p>
{% for part in text.parts %}
<h2 style="margin:28px 0 2px;font-size:18px;line-height:1.3;overflow-wrap:anywhere">
{{- part.title }}</h2>
{% if part.description %}
<p style="margin:0 0 4px;font-size:14px;line-height:1.45">{{ part.description }}</p>
{% endif %}
<p class="soft" style="margin:0 0 10px;{{ small }}">{{ part.details }}</p>
{% if part.figures %}
<table style="{{ table }}">
<tr><th class="head" style="{{ head }}{{ first }};text-align:left">
{{- text.head_figures }}</th>
<th class="head" style="{{ head }};text-align:right">{{ text.head_total }}</th>
{%- if part.since -%}
<th class="head" style="{{ head }};text-align:right">{{ part.since }}</th>
{%- endif %}</tr>
{% for figure in part.figures %}
<tr><td class="cell" style="{{ cell }}{{ first }};overflow-wrap:anywhere">
{{- figure.title }}
{%- if figure.span %}
<br><span class="soft" style="{{ small }}">{{ figure.span }}</span>{% endif %}</td>
<td class="cell" style="{{ cell }};text-align:right;font-weight:600">
{{- figure.total }}</td>
{%- if part.since -%}
<td class="cell" style="{{ cell }};text-align:right">
{%- if figure.change %}{{ figure.change.text }}
{%- if figure.change.shares -%}
<div aria-hidden="true" style="width:88px;margin:5px 0 0 auto">
{%- for name, color, share in (("before", "#bcccdc", figure.change.shares[0]),
  ("now", "#2680c2", figure.change.shares[1])) -%}
<div class="{{ name }}" style="height:4px;margin-bottom:1px;background:{{ color }};
width:{{ [(share * 88) | round | int, 1] | max }}px;font-size:0;line-height:0">
&#8203;</div>
{%- endfor -%}
</div>{% endif %}{% endif %}</td>
{%- endif %}</tr>
{% endfor %}
</table>
{% endif %}
{% for told in (part.bars, part.more_figures) %}
{% if told %}
<p class="soft" style="margin:6px 0 0;{{ small }};overflow-wrap:anywhere">{{ told }}</p>
{% endif %}
{% endfor %}
{% set rows = part.narrow %}
{% if rows.rows %}
<p style="margin:16px 0 2px;font-size:14px;font-weight:600">{{ text.first_rows }}</p>
<table style="{{ table }}">
<tr>
{%- for title in rows.head -%}
<th class="head" style="{{ head }};text-align:
{{- "right" if rows.is_number[loop.index0] else "left" }};overflow-wrap:anywhere
{{- first if loop.first }}">{{ title }}</th>
{%- endfor %}</tr>
{% for row in rows.rows %}
<tr>
{%- for value in row -%}
<td class="cell" style="{{ cell }};text-align:
{{- "right" if rows.is_number[loop.index0] else "left" }};overflow-wrap:anywhere
{{- first if loop.first }}">{{ value }}</td>
{%- endfor %}</tr>
{% endfor %}
</table>
{% if rows.hidden %}
<p class="soft" style="margin:6px 0 0;{{ small }};overflow-wrap:anywhere">
{{- rows.hidden }}</p>
{% endif %}
{% endif %}
{% endfor %}
{% if text.unpublished %}
<p class="soft" style="margin:24px 0 0;{{ small }}">{{ text.unpublished }}</p>
{% endif %}
</div>
<div class="foot soft" style="padding:14px 28px;border-top:1px solid #e5e8ec;
{{- small }};border-radius:0 0 8px 8px">{{ text.sent_by }}<br>{{ text.pdf }}</div>
</div>
</body>
</html>
"""

_TEMPLATE = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
).from_string(_PAGE)


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
    told = [figure.total] if figure.total else []
    if figure.change is not None:
        told.append(figure.change.text)
    if figure.span:
        told.append(figure.span)
    return f"  {figure.title} \N{EM DASH} {'; '.join(told)}"
