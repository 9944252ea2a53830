"""
The executive summary as HTML. Pure.

Styles are inline and there are no images, because mail programs drop other styles and
hide images.
"""

from __future__ import annotations

from jinja2 import Environment, StrictUndefined

from operations.mail.executive_summary import (
    WIDEST,
    Summary,
    describe,
    find_figures,
    format_instant,
    format_number,
    plural,
    shorten,
)

_PAGE = """\
{%- set cell = "padding:6px 10px;border-bottom:1px solid #e5e8ec;font-size:13px" -%}
{%- set head = "padding:6px 10px;border-bottom:2px solid #cbd2d9;font-size:11px;"
  "text-transform:uppercase;letter-spacing:.04em;color:#616e7c" -%}
{%- set table = "width:100%;border-collapse:collapse" -%}
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{{ summary.subject }}</title></head>
<body style="margin:0;padding:24px;background:#f5f7fa;color:#1f2933;
font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif">
<div style="max-width:680px;margin:0 auto;background:#ffffff;
border:1px solid #e5e8ec;border-radius:8px">
<div style="padding:24px 28px;background:#243b53;color:#ffffff;
border-radius:8px 8px 0 0">
<div style="font-size:12px;letter-spacing:.08em;text-transform:uppercase;opacity:.8">
Executive summary</div>
<h1 style="margin:4px 0 0;font-size:22px">{{ summary.app_name }}</h1>
<div style="margin-top:4px;font-size:13px;opacity:.8">{{ instant(summary.now) }}</div>
</div>
<div style="padding:20px 28px">
<p style="margin:0;font-size:15px">{{ summary.overview }}</p>
{% for domain in summary.domains %}
<h2 style="margin:28px 0 2px;font-size:17px">{{ domain.domain }}</h2>
<p style="margin:0 0 10px;font-size:13px;color:#616e7c">
{{ describe(domain, now=summary.now) }}</p>
{% set figures = find_figures(domain) %}
{% if figures %}
<table style="{{ table }}">
<tr><th style="{{ head }};text-align:left">Column</th>
{%- for name in ("Smallest", "Largest", "Sum") -%}
<th style="{{ head }};text-align:right">{{ name }}</th>
{%- endfor %}</tr>
{% for column in figures %}
<tr><td style="{{ cell }}">{{ shorten(column.name) }}</td>
{%- for figure in (column.minimum, column.maximum, column.total) -%}
<td style="{{ cell }};text-align:right">{{ number(figure) }}</td>
{%- endfor %}</tr>
{% endfor %}
</table>
{% endif %}
{% if domain.head %}
{% set hidden = [domain.columns | length - widest, 0] | max %}
<p style="margin:14px 0 4px;font-size:12px;color:#7b8794">First rows
{%- if hidden %} ({{ hidden }} more {{ plural(hidden, "column") }} not shown){% endif %}
</p>
<table style="{{ table }}">
<tr>
{%- for column in domain.columns[:widest] -%}
<th style="{{ head }};text-align:left">{{ shorten(column.name) }}</th>
{%- endfor %}</tr>
{% for row in domain.head %}
<tr>{% for text in row[:widest] %}<td style="{{ cell }}">{{ shorten(text) }}</td>
{%- endfor %}</tr>
{% endfor %}
</table>
{% endif %}
{% endfor %}
{% if summary.unpublished %}
<p style="font-size:13px;color:#7b8794">
Not published yet: {{ summary.unpublished | join(", ") }}.</p>
{% endif %}
</div>
<div style="padding:14px 28px;border-top:1px solid #e5e8ec;font-size:12px;
color:#7b8794">Sent by the scheduled action “{{ summary.action_name }}”.
The attached PDF has the same figures.</div>
</div>
</body>
</html>
"""

_TEMPLATE = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
).from_string(
    _PAGE,
    globals={
        "describe": describe,
        "find_figures": find_figures,
        "instant": format_instant,
        "number": format_number,
        "plural": plural,
        "shorten": shorten,
        "widest": WIDEST,
    },
)


def make_html(summary: Summary) -> str:
    """Return the HTML part of the mail."""
    return _TEMPLATE.render(summary=summary)
