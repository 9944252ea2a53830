"""
The web pages: what people look at (docs/web.md).

A request passes guarding.py, then its route in routes/, which calls one function below
for each part of the page and hands what it returns to a template. rendering.py puts the
page into its frame. query.py reads what a link asks for, forms.py what was typed, and
clocks.py writes times. charts/ has the geometry of pictures, templates/parts/ what
templates share, and static/ the one style sheet and the one script: every page works
without it. No route has SQL or a rule of its own, and nothing here knows api/.
"""
