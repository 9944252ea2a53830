"""
The HTTP API: what admins, operators and programs ask over HTTP (docs/api.md).

A request passes ``guarding.py`` (who asks, how often, how much, is it a repeat), then
its route in ``routes/``, which parses, authorizes, calls one function below, and writes
the answer. No route has SQL or a rule of its own. cli/web_app.py puts it together with
the pages; nobody else comes in.
"""
