"""
Where the database, the broker and the mail server are, as operators write it. Pure.

An address that cannot be connected to is refused at the start: the libraries would
say so later, in a traceback, and some of them only when the first mail is sent.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from models.errors import RuleError
from models.fields.strict_model import suggest

#: Schemes of PostgreSQL. Addresses copied from other programs may name another driver;
#: we always connect with our own.
POSTGRESQL_SCHEMES = (
    "postgresql",
    "postgresql+psycopg",
    "postgresql+psycopg2",
    "postgres",
)
_DATABASE_SCHEMES = ("sqlite", *POSTGRESQL_SCHEMES)
_BROKER_SCHEMES = ("memory", "redis", "rediss", "redis+socket", "amqp", "amqps")
_SMTP_SCHEMES = ("smtp", "smtps")
#: kombu offers these, but its file queue loses messages, and its SQL queue polls and
#: never deletes.
_UNSOUND_BROKERS = ("filesystem", "sqla", "sqlalchemy")

#: What kombu takes behind the path; all else ends whatever connects.
_OF_REDIS = (
    "credential_provider",
    *("ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_cert_reqs"),
    *("ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_check_hostname"),
)
_PARAMETERS = {
    **dict.fromkeys(("redis", "rediss", "sentinel"), _OF_REDIS),
    **dict.fromkeys(("amqp", "amqps"), ("login_method",)),
    "redis+socket": ("virtual_host",),
}
_CERTIFICATES = (
    *("required", "optional", "none"),
    *("CERT_REQUIRED", "CERT_OPTIONAL", "CERT_NONE"),
)

#: Valkey speaks the protocol of Redis; only the scheme of its URLs differs.
_VALKEY = {"valkey": "redis", "valkeys": "rediss"}

_SENTINEL = (
    "is a Redis Sentinel, which Minutehand cannot ask for its master.",
    (
        "Write the address of a proxy that follows it, redis://proxy:6379/0, or"
        " RabbitMQ; for tasks of a project, its own in MINUTEHAND_TASK_CONNECTIONS."
    ),
)

#: SQLAlchemy reads a password up to the @; other libraries end it at these characters.
_ESCAPED = "In a password write / as %2F, ? as %3F and # as %23."


def read_database_url(url: str) -> str:
    """
    Accept PostgreSQL and SQLite, and name the driver that we ship.

    Raises:
        RuleError: If it is neither, or has a port that cannot be one.
    """
    scheme, separator, rest = url.partition("://")
    hint = "Write postgresql://user:password@host/name or sqlite:////path/to/file."
    if not separator or scheme not in _DATABASE_SCHEMES:
        raise RuleError("is not a database that Minutehand supports.", hint)
    if scheme == "sqlite":
        if rest.partition("?")[0].strip("/") in {"", ":memory:"}:
            raise RuleError("names no file.", hint)
        if not rest.startswith("/") or "?" in rest:
            raise RuleError("has more than the path of a file.", hint)
        return url
    place = rest.rpartition("@")[2]
    if "," in place.partition("/")[0]:
        hint = "Write postgresql://user:password@/name?host=one,two&port=5432,5433."
    _split(place, hint)
    return f"postgresql+psycopg://{rest}"


def read_broker_url(url: str) -> str:
    """
    Accept the brokers that do not lose messages, and call Valkey by Redis's name.

    Raises:
        RuleError: If it is another broker, or has a port or database that cannot be
            one; or if it names several Redis servers, which would not share keys.
    """
    hint = "Write redis://host:6379/0, amqp://user:password@host// or memory://."
    # kombu accepts several, and tries one after the other.
    read = [_read_broker(each, hint) for each in url.split(";")]
    if len(read) > 1 and not all(each.startswith("amqp") for each in read):
        msg = "names several servers that do not share their messages."
        raise RuleError(
            msg, "Write one server; only nodes of a RabbitMQ cluster may be several."
        )
    return ";".join(read)


def _read_broker(url: str, hint: str) -> str:
    """Read one of the servers of a broker."""
    scheme, separator, rest = url.partition("://")
    if "sentinel" in scheme:
        raise RuleError(*_SENTINEL)
    if scheme.partition("+")[0] in _UNSOUND_BROKERS:
        raise RuleError("is a broker that loses or never deletes messages.", hint)
    scheme = _VALKEY.get(scheme, scheme)
    if scheme not in _BROKER_SCHEMES or not separator:
        raise RuleError("is not a broker that Minutehand supports.", hint)
    parts = _split(rest, f"{hint} {_ESCAPED}")
    database = parts.path.lstrip("/") if scheme in {"redis", "rediss"} else ""
    if scheme == "redis+socket":
        hint = "Write redis+socket:///run/redis/redis.sock?virtual_host=0."
        if parts.hostname or not parts.path.strip("/"):
            raise RuleError("has no absolute path to a socket.", hint)
    given = _read_parameters(scheme, parts)
    if not given.get("virtual_host", database or "0").isdecimal():
        raise RuleError("has a database that is not a number.", hint)
    return f"{scheme}://{rest}"


def _read_parameters(scheme: str, parts: SplitResult) -> dict[str, str]:
    """Return what stands behind the path of a broker, if kombu takes it."""
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = _PARAMETERS.get(scheme, ())
    for key in given.keys() - known:
        places = f"only {', '.join(known)}" if known else "nothing"
        msg = f"has {key!r} after the path, where {places} may be."
        raise RuleError(msg, "Leave it out; for TLS write amqps:// or rediss://.")
    certificates = given.get("ssl_cert_reqs", _CERTIFICATES[0])
    if certificates not in _CERTIFICATES:
        msg = f"has {certificates!r} as ssl_cert_reqs."
        raise RuleError(msg, suggest(certificates, _CERTIFICATES))
    return given


#: ``shop=redis://...``: the beginning of a connection in a list. A comma or space in a
#: password is not followed by such a text.
_NAMED = re.compile(
    r"(?:^|(?:^|[,\s]\s*)([A-Za-z][A-Za-z0-9_-]*)=)(?=[A-Za-z0-9+.-]+://)"
)


def read_connections(text: str, *, with_own: bool = False) -> dict[str, str]:
    """
    Return the brokers that *text* names: ``shop=redis://...,crm=amqp://...``.

    Args:
        text: Separated by commas, spaces or line ends.
        with_own: Whether the first may have no name; it stands under "".

    Raises:
        RuleError: If it has another form, has a name twice, or names a broker that
            we could not send to. The message has nothing that may be a password.
    """
    hint = "Write shop=redis://:password@host:6379/0,crm=amqp://user:password@host//."
    found = list(_NAMED.finditer(text))
    if not found or found[0].start() or not (with_own or all(x[1] for x in found)):
        raise RuleError("is not a list of connections, NAME=URL.", hint)
    ends = [each.start() for each in found[1:]]
    read: dict[str, str] = {}
    for each, end in zip(found, [*ends, len(text)], strict=True):
        name, url = each[1] or "", text[each.end() : end].strip(", \t\r\n")
        if name in read:
            msg = f"names {name!r} twice."
            raise RuleError(msg, "Give each connection its own name.")
        if url.startswith("memory"):
            msg = f"has a connection {name!r} to memory://, which only we could reach."
            raise RuleError(msg, hint)
        try:
            read[name] = _read_task_url(url)
        except RuleError as error:
            msg = f"has a connection {name!r} that {error.message}"
            raise RuleError(msg, error.hint) from None
    return read


def _read_task_url(url: str) -> str:
    """Accept what ``read_broker_url`` does, or a list of Sentinels of one master."""
    servers = url.split(";")
    if not all(each.startswith("sentinel://") for each in servers):
        return read_broker_url(url)
    hint = "Write sentinel://host:26379;sentinel://other:26379."
    for each in servers:
        parts = _split(each.partition("://")[2], f"{hint} {_ESCAPED}")
        if not parts.hostname:
            raise RuleError("names no server.", hint)
        _read_parameters("sentinel", parts)
    return url


def read_smtp_url(url: str) -> str:
    """
    Accept a mail server.

    Raises:
        RuleError: If it is not a mail server, or has a port that cannot be one.
    """
    hint = "Write smtp://user:password@host:587, smtps://host, or /a/folder or ./one."
    scheme, _separator, rest = url.partition("://")
    if scheme not in _SMTP_SCHEMES or not rest:
        raise RuleError("is neither a mail server nor a folder.", hint)
    hint += f" {_ESCAPED}"
    parts = _split(rest, hint)
    if not parts.hostname:
        raise RuleError("names no server.", hint)
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise RuleError("has more than a server and its port.", hint)
    return url


def hide_sign_in(url: str) -> str:
    """
    Return *url* without user, password and parameters, of which one may be a password.

    Only the scheme remains if an @ stands behind the first question mark: nobody knows
    then which of the two is a part of the password.

    >>> hide_sign_in("redis://ada:secret@redis:6379/0?ssl_cert_reqs=none")
    'redis://redis:6379/0'
    >>> hide_sign_in("redis://:what?@redis:6379/0")
    'redis://...'
    """
    start = url.find("://") + len("://") if "://" in url else 0
    place, _, parameters = url[start:].partition("?")
    shown = "..." if "@" in parameters else place.rpartition("@")[2]
    return f"{url[:start]}{shown}"


def _split(rest: str, hint: str) -> SplitResult:
    """Return the parts of a URL without its scheme."""
    try:
        parts = urlsplit(f"//{rest}")
        _ = parts.port
        if "@" in parts.query + parts.fragment:  # of a password, which began before
            raise ValueError  # noqa: TRY301 - the same mistake
    except ValueError:
        # whose text may hold a part of the password
        raise RuleError("has a host or port that cannot be read.", hint) from None
    return parts
