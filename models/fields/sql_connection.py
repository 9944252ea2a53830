"""
Databases that operators let small apps query, by name. Pure.

A tenant names a connection and never sees its address: the address has a password, and
an address of the tenant's own could lead anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import SecretStr, TypeAdapter, ValidationError

from models.errors import RuleError
from models.fields.field_types import AppOrAll
from models.fields.server_url import POSTGRESQL_SCHEMES

#: Stands for every small app.
EVERY_APP = "*"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_EXAMPLE = (
    'Write {"warehouse": {"url": "postgresql://reader:password@host/name", '
    '"apps": ["sales"]}}.'
)
_APPS = TypeAdapter(list[AppOrAll])
_LOOPBACK = frozenset({"", "localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class SqlConnection:
    """A database, whose url is a secret, and the uids of the apps that may query it."""

    url: SecretStr
    apps: tuple[str, ...]

    def serves(self, app: str) -> bool:
        """Tell whether *app* may use it."""
        return app in self.apps or EVERY_APP in self.apps


def check_connection_name(name: str) -> str:
    """Refuse what cannot be the name of a connection."""
    if _NAME.fullmatch(name) is None:
        # An address may contain a password, so it is not shown.
        shown = "An address" if "://" in name else f"{name[:60]!r}"
        msg = f"{shown} cannot name a connection."
        raise RuleError(
            msg, "Use letters, digits, '-', '_' and '.', such as 'warehouse'."
        )
    return name


def read_sql_connections(text: str) -> Mapping[str, SqlConnection]:
    """
    Return the connections of a JSON object, by name.

    Raises:
        RuleError: If it is not such an object. The message never contains a URL.
    """
    try:
        found = json.loads(text)
    except ValueError:
        raise RuleError("is not JSON.", _EXAMPLE) from None
    if not isinstance(found, dict):
        raise RuleError("is not a JSON object.", _EXAMPLE)
    return {check_connection_name(name): _read(name, found[name]) for name in found}


def _read(name: str, given: object) -> SqlConnection:
    if not isinstance(given, dict) or set(given) != {"url", "apps"}:
        msg = f"has a connection {name!r} that is not an object with 'url' and 'apps'."
        raise RuleError(msg, _EXAMPLE)
    url = given["url"]
    try:
        apps = _APPS.validate_python(given["apps"], strict=True)
    except ValidationError:
        msg = f"has a connection {name!r} whose 'apps' is not a list of uids."
        hint = 'Write "apps": ["sales"], or ["*"] for every small app.'
        raise RuleError(msg, hint) from None
    scheme = url.partition("://")[0] if isinstance(url, str) else ""
    if scheme in POSTGRESQL_SCHEMES:
        url = f"postgresql://{url.partition('://')[2]}"
        readable = bool(find_databases(url))
    else:
        readable = scheme == "sqlite" and url.startswith("sqlite:////")
    if not readable:
        msg = (
            f"has a connection {name!r} whose 'url' is not a database that can be read."
        )
        hint = "Write postgresql://user:password@host/name or sqlite:////path/to/file."
        raise RuleError(msg, hint)
    return SqlConnection(SecretStr(str(url)), tuple(apps))


def find_databases(url: str) -> frozenset[tuple[str, int, str]]:
    """
    Return host, port and name of each database that a PostgreSQL URL may mean.

    Spellings that certainly mean the same become equal; whether two host names lead to
    one server is known only after connecting. Empty if *url* cannot be read.
    """
    return frozenset((host, port, name) for host, port, name, _ in _find_places(url))


def find_roles(url: str) -> frozenset[tuple[str, int, str]]:
    """Return host, port and role, as ``find_databases`` does; SQLite has none."""
    if not url.startswith("postgresql"):
        return frozenset()
    return frozenset((host, port, role) for host, port, _, role in _find_places(url))


def _find_places(url: str) -> frozenset[tuple[str, int, str, str]]:
    try:
        parts = urlsplit(url)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        place = parts.netloc.rpartition("@")[2]
        role = query.get("user") or unquote(parts.username or "")
        name = query.get("dbname") or unquote(parts.path.lstrip("/")) or role
        ports = query.get("port", "").split(",")
        found = set()
        for number, each in enumerate((query.get("host") or place).split(",")):
            split = urlsplit(f"//{each}" if not each.startswith("/") else "//")
            port = split.port or int(ports[min(number, len(ports) - 1)] or 5432)
            host = unquote(split.hostname or "").rstrip(".")
            if host in _LOOPBACK or host.startswith("/"):
                host = "localhost"
            found.add((host, port, name, role))
    except ValueError:
        return frozenset()
    return frozenset(found)


def find_sqlite_path(url: str) -> str | None:
    """Return the file of a SQLite URL; None for other databases."""
    if not url.startswith("sqlite"):
        return None
    return url.partition(":///")[2].partition("?")[0]
