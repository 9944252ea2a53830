"""
Where the database, the broker and the mail server are, as operators write it. Pure.

What cannot be connected to is refused at the start: later the libraries would say so
with a traceback, and some of them only when the first mail is to be sent.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from models.errors import RuleError

#: PostgreSQL, whichever of its drivers an address that was copied from another
#: program names: we connect with our own.
POSTGRESQL_SCHEMES = (
    "postgresql",
    "postgresql+psycopg",
    "postgresql+psycopg2",
    "postgres",
)
_DATABASE_SCHEMES = ("sqlite", *POSTGRESQL_SCHEMES)
_BROKER_SCHEMES = ("memory", "redis", "rediss", "redis+socket", "amqp", "amqps")
_SMTP_SCHEMES = ("smtp", "smtps")
#: kombu offers these, but its file queue loses messages and its SQL queue polls
#: and never deletes.
_UNSOUND_BROKERS = ("filesystem", "sqla", "sqlalchemy")

#: Valkey speaks the protocol of Redis, and its URLs differ by the name alone.
_VALKEY = {"valkey": "redis", "valkeys": "rediss"}

_SENTINEL = (
    "is a Redis Sentinel, which we do not ask for its master.",
    "Write the address of a proxy that follows it, redis://proxy:6379/0, or RabbitMQ.",
)
_CLUSTER = (
    "is a Redis Cluster, which spreads the keys of one queue over its nodes.",
    "Write a Redis that is not part of one, redis://host:6379/0, or RabbitMQ.",
)
#: What people write for forms of Redis that we do not speak, and what to do instead.
_OTHER_REDIS = {
    **dict.fromkeys(
        ("sentinel", "sentinels", "redis+sentinel", "rediss+sentinel"), _SENTINEL
    ),
    **dict.fromkeys(
        ("redis+cluster", "rediss+cluster", "rediscluster", "redisclusters"), _CLUSTER
    ),
    "unix": (
        "is not how a socket is written here.",
        "Write redis+socket:///run/redis/redis.sock.",
    ),
}

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
    Accept the brokers that do not lose messages, and call Valkey by Redis's name.

    Raises:
        RuleError: It is another, or has no port or database that could be one; or
            it names several Redis servers, of which none would know the others' keys.
    """
    hint = "Write redis://host:6379/0, amqp://user:password@host// or memory://."
    # kombu takes several, to try one after the other
    read = [_read_broker(each, hint) for each in url.split(";")]
    if len(read) > 1 and not all(each.startswith("amqp") for each in read):
        msg = "names several servers that do not share their messages."
        raise RuleError(msg, "Write one; only the nodes of a RabbitMQ cluster may be.")
    return ";".join(read)


def _read_broker(url: str, hint: str) -> str:
    """Read one of the servers of a broker."""
    scheme, separator, rest = url.partition("://")
    if scheme in _OTHER_REDIS:
        raise RuleError(*_OTHER_REDIS[scheme])
    if scheme.partition("+")[0] in _UNSOUND_BROKERS:
        raise RuleError("is a broker that loses or never deletes messages.", hint)
    scheme = _VALKEY.get(scheme, scheme)
    if scheme not in _BROKER_SCHEMES or not separator:
        raise RuleError("is no broker we support.", hint)
    parts = _split(rest, f"{hint} {_ESCAPED}")
    if scheme == "redis+socket":
        _check_socket(parts)
    elif scheme.startswith("redis"):
        database = parts.path.lstrip("/")
        if database and not database.isdecimal():
            raise RuleError("has a database that is no number.", hint)
    return f"{scheme}://{rest}"


def _check_socket(parts: SplitResult) -> None:
    """Refuse a socket without a path, or with what would be ignored."""
    hint = "Write redis+socket:///run/redis/redis.sock?virtual_host=0."
    if parts.hostname or not parts.path.strip("/"):
        raise RuleError("has no absolute path of a socket.", hint)
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key != "virtual_host":
            msg = f"has {key!r} after the path, where only a database may be."
            raise RuleError(msg, hint)
        if not value.isdecimal():
            raise RuleError("has a database that is no number.", hint)


#: ``shop=redis://...``: where a connection begins in a list of them. A comma or space
#: that is a part of a password is followed by something else.
_NAMED = re.compile(r"(?:^|[,\s]\s*)([A-Za-z][A-Za-z0-9_-]*)=(?=[A-Za-z0-9+.-]+://)")


def read_connections(text: str) -> dict[str, str]:
    """
    Return the brokers that *text* names: ``shop=redis://...,crm=amqp://...``.

    Args:
        text: With commas, spaces or line ends between them.

    Raises:
        RuleError: It has another form, names one twice, or names a broker that we
            could not send to. What is said never holds a part of a URL.
    """
    hint = "Write shop=redis://:password@host:6379/0,crm=amqp://user:password@host//."
    found = list(_NAMED.finditer(text))
    if not found or found[0].start() != 0:
        raise RuleError("is no list of connections, NAME=URL.", hint)
    ends = [each.start() for each in found[1:]]
    read: dict[str, str] = {}
    for each, end in zip(found, [*ends, len(text)], strict=True):
        name, url = each[1], text[each.end() : end].strip(", \t\r\n")
        if name in read:
            msg = f"names {name!r} twice."
            raise RuleError(msg, "Give each a name of its own.")
        if url.startswith("memory"):
            msg = f"has a connection {name!r} that no other process reaches, memory://."
            raise RuleError(msg, hint)
        try:
            read[name] = read_broker_url(url)
        except RuleError as error:
            msg = f"has a connection {name!r} that {error.message}"
            raise RuleError(msg, error.hint) from None
    return read


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
