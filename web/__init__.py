"""
The web pages: what people look at (docs/web.md).

A page is a module with its templates in the folder of that name, such as workers.py;
one that has more, such as Now, is a room, with its routes in routes.py. A request
passes guarding.py, then the route of its page, which calls one function for each part
and hands what it returns to a template. What one page alone shows is asked of the
database in its room, in files called fetch_*.py; all else below.
rendering.py puts the page into its frame. query.py reads what a link asks for, forms.py
what was typed, and preferences.py writes times. templates/ has the frame and what pages
share, charts.py the geometry of small pictures of several pages, and static/ the one
style sheet and the one script: every page works without it. Nothing here knows api/.
"""
