"""
The HTTP API: what admins, operators and programs ask over HTTP (docs/api.md).

``server.py`` serves what ``app.py`` puts together. A request passes ``guarding.py``
(who asks, how often, how much, is it a repeat), then its route in ``routes/``, which
parses, authorizes, calls one function below, and writes the answer. No route has SQL or
a rule of its own. The command line starts the server; nobody else comes in.
"""
