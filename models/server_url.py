"""
Where the database, the broker and the mail server are, as operators write it. Pure.

What cannot be connected to is refused at the start: later the libraries would say so
with a traceback, and some of them only when the first mail is to be sent.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from models.errors import RuleError

_DATABASE_SCHEMES = ("sqlite", "postgresql", "postgresql+psycopg", "postgres")
_BROKER_SCHEMES = ("memory", "redis", "rediss", "amqp", "amqps")
_SMTP_SCHEMES = ("smtp", "smtps")
#: kombu offers these, but its file queue loses messages and its SQL queue polls
#: and never deletes.
_UNSOUND_BROKERS = ("filesystem", "sqla", "sqlalchemy")

#: SQLAlchemy reads a password up to the @; the others end it, and the host, at these.
_ESCAPED = "In a password write / as %2F, ? as %3F and # as %23."


def read_database_url(url: str) -> str:
    """
    Accept PostgreSQL and SQLite, and name the one driver that we ship.

    Raises:
        RuleError: It is neither, or has no port that could be one.
    """
    scheme, separator, rest = url.partition("://")
    hint = "Write postgresql://user:password@host/name or sqlite:////path/to/file."
    if not separator or scheme not in _DATABASE_SCHEMES:
        raise RuleError("is no database we support.", hint)
    if scheme == "sqlite":
        return url
    _split(rest.rpartition("@")[2], hint)
    return f"postgresql+psycopg://{rest}"


def read_broker_url(url: str) -> str:
    """
    Accept the brokers that do not lose messages.

    Raises:
        RuleError: It is another, or has no port or database that could be one.
    """
    hint = "Write redis://host:6379/0, amqp://user:password@host// or memory://."
    # kombu takes several, to try one after the other
    for each in url.split(";"):
        scheme, separator, rest = each.partition("://")
        if scheme.partition("+")[0] in _UNSOUND_BROKERS:
            raise RuleError("is a broker that loses or never deletes messages.", hint)
        if scheme not in _BROKER_SCHEMES or not separator:
            raise RuleError("is no broker we support.", hint)
        database = _split(rest, f"{hint} {_ESCAPED}").path.lstrip("/")
        if scheme.startswith("redis") and database and not database.isdecimal():
            raise RuleError("has a database that is no number.", hint)
    return url


def read_smtp_url(url: str) -> str:
    """
    Accept a mail server.

    Raises:
        RuleError: It is none, or has no port that could be one.
    """
    hint = "Write smtp://user:password@host:587, smtps://host or a folder."
    scheme, _separator, rest = url.partition("://")
    if scheme not in _SMTP_SCHEMES or not rest:
        raise RuleError("is neither a mail server nor a folder.", hint)
    _split(rest, f"{hint} {_ESCAPED}")
    return url


def _split(rest: str, hint: str) -> SplitResult:
    """Return the parts of what follows the scheme of a URL."""
    try:
        parts = urlsplit(f"//{rest}")
        _ = parts.port
    except ValueError:
        # whose text may hold a part of the password
        raise RuleError("has a host or port that cannot be read.", hint) from None
    return parts
