"""
What an operator may set, and the only reader of the environment.

Every setting is a variable ``MINUTEHAND_<FIELD>``, in the environment or in a
``.env`` file; the environment wins. A secret may be in a file of its own, which
``MINUTEHAND_<FIELD>_FILE`` names. A variable that is unknown or invalid stops the
start: a setting that is silently ignored is noticed only when it is needed.
docs/settings.md lists them all; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from datetime import time, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from models.back_off import LEASE, RENEWED_EVERY
from models.errors import RuleError, UsageError
from models.fields.addresses import check_email, check_notice_url, check_ping, check_url
from models.fields.app_bounds import AppBounds, read_app_bounds
from models.fields.duration import Duration
from models.fields.field_types import AppOrAll, Uid, check_queue
from models.fields.server_url import (
    hide_sign_in,
    read_broker_url,
    read_connections,
    read_database_url,
    read_smtp_url,
)
from models.fields.sql_connection import (
    SqlConnection,
    find_databases,
    find_roles,
    find_sqlite_path,
    read_sql_connections,
)
from models.fields.strict_model import find_near, read_setting, show, suggest
from models.fields.task_rules import ConnectionRules, TaskRules, read_connection_rules
from models.fields.webhook_secret import decode_secret
from models.fields.zone import load_zone
from models.occurrence import LOOKBACK
from models.role import Role

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PREFIX = "MINUTEHAND_"

#: Prefix of the test suite's own variables (tests/servers.py), which are not settings.
_FOREIGN_PREFIX = "MINUTEHAND_TEST_"

#: Prefixes of Celery's remote control and monitoring where none are configured.
_TAKEN_PREFIXES = frozenset({"celery", "celeryev", "reply.celery"})

#: Ends the name of a variable that holds the path of a file with the secret.
_FILE_SUFFIX = "_FILE"

#: Threads of a process that reads a source; the operator's POLARS_MAX_THREADS wins.
_READER_THREADS = "4"

#: Makes Polars' allocator (jemalloc) give free memory back at once. Memory that it
#: keeps counts against the bound, and how much it keeps depends on how busy the
#: machine is. A CSV file of 120 MB took 410 MiB without this and takes 270 MiB with
#: it, in the same time.
_ALLOCATOR = {"_RJEM_MALLOC_CONF": "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0"}

#: Settings whose values are never shown: a secret, and lists of addresses, of which no
#: pattern could tell where a password ends.
_HIDDEN = frozenset(
    {
        *("sql_connections", "task_connections", "task_results", "task_rules"),
        *("mcp_key", "oidc_client_secret", "webhook_secret"),
    }
)

#: Settings that must be addresses: what is no address may hold a password, too.
_ADDRESSES = frozenset(
    {"broker_url", "database_url", "leader_ping", "notice_webhook", "web_url"}
)

#: Addresses that whoever knows the path may use: of these, only the host is shown.
_HOOKS = frozenset({"leader_ping", "notice_webhook"})

#: The shortest lease: with a heartbeat of one second, it survives two lost renewals.
_THREE_SECONDS = timedelta(seconds=3)


_HANGS = "one call that hangs would outlast the lease."
_KILLS = "an operation would be killed before it could say why."

#: Durations that are shorter than others, and what happens if they are not.
_SHORTER = (
    ("database_timeout", "lease_ttl", _HANGS),
    ("broker_timeout", "lease_ttl", _HANGS),
    ("database_timeout", "operation_lease", _HANGS),
    ("quick_soft_limit", "quick_hard_limit", _KILLS),
    ("heavy_soft_limit", "heavy_hard_limit", _KILLS),
)


def _read_elapsed(value: object, info: ValidationInfo) -> timedelta:
    """Read an ISO 8601 duration that is the same length at any time of the year."""
    if isinstance(value, timedelta):
        return value
    assert info.field_name is not None  # it validates nothing but fields
    hint = f"Write it like the default, {_default(info.field_name)}."
    try:
        duration = Duration.parse(str(value))
    except RuleError as error:
        raise RuleError(error.message, hint) from None
    if duration.months:
        raise RuleError("has months or years, whose length depends on the date.", hint)
    if duration.is_zero:
        raise RuleError("is zero.", hint)
    return duration.elapsed


def _read_path(text: str | Path) -> Path:
    """Make a path absolute, so that a later change of directory cannot move it."""
    if "://" in str(text):
        raise RuleError("is no folder.", "Write one of this host: /var/lib/minutehand.")
    path = os.path.expanduser(text)  # noqa: PTH111 - that of Path raises RuntimeError
    if path.startswith("~"):
        raise RuleError("is of nobody who has a home here.", "Write an absolute path.")
    return Path(path).absolute()


def _from_text(read: Callable[[str], object]) -> BeforeValidator:
    """Read the text of a variable by *read*; code of ours gives what that returns."""
    return BeforeValidator(
        lambda value: read(value) if isinstance(value, str) else value
    )


def _read_names(text: str) -> tuple[str, ...]:
    """Return the entries of a comma-separated list."""
    return tuple(filter(None, map(str.strip, text.split(","))))


#: Its last part is no number: 300.1.1.1 is no address, and no name either.
_HOST = re.compile(r"(?:[\w-]+\.)*(?!\d+\.?$)[\w-]+\.?")


def _read_hosts(text: str) -> tuple[str, ...]:
    """Return host names, in lower case, and networks in a comma-separated list."""
    found = _read_names(text.lower())
    try:
        for each in found:
            if _HOST.fullmatch(each) is None:
                ip_network(each)
    except ValueError as error:
        hint = "Write host names, addresses and networks: hooks.example, 10.1.0.0/16."
        raise RuleError(f"names what cannot be a host: {error}.", hint) from None
    return found


def _read_results(text: str) -> Mapping[str, str]:
    """Return result backends by the names of their brokers; "" is our own broker."""
    read = read_connections(text, with_own=True)
    for name, url in read.items():
        if not url.startswith("redis"):
            hint = "Leave it out: without it, failures refer to the worker's log."
            raise RuleError(f"has a result backend {name!r} that is no Redis.", hint)
    return read


def _read_address(text: str) -> str:
    """Return the IP address to listen on; a host name may mean another one tomorrow."""
    try:
        return str(ip_address(text))
    except ValueError:
        hint = "Write 127.0.0.1 (this host alone), or 0.0.0.0 (every interface)."
        raise RuleError("is not an IP address.", hint) from None


def _read_listen(text: str) -> str:
    """Return ``ADDRESS:PORT`` to listen on; empty for ``none``."""
    if text in {"", "none"}:
        return ""
    host, _, port = text.rpartition(":")
    hint = "Write 127.0.0.1:8400 (this host alone), 0.0.0.0:8400, [::]:8400, or none."
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise RuleError("is not an IP address and a port.", hint) from None
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise RuleError("does not end in a port from 0 to 65535.", hint)
    return text


def _read_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the IP addresses and networks in a comma-separated list."""
    try:
        return tuple(map(ip_network, _read_names(text)))
    except ValueError as error:
        hint = "Write addresses and networks: 10.0.0.7, 192.168.2.0/24, fd00::/8."
        raise RuleError(f"is not a list of IP addresses: {error}.", hint) from None


def _check_base(text: str) -> str:
    """Refuse what is no address, or one that no path can be added to."""
    if urlsplit(check_url(text))[3:] != ("", ""):
        raise RuleError("has a query, or a fragment.", "End it before that.")
    return text


def _check_issuer(text: str) -> str:
    """Refuse a provider that anybody on the way could answer for."""
    _check_base(text)
    is_here = urlsplit(text).hostname in {"localhost", "127.0.0.1", "::1"}
    if not text.startswith("https:") and not is_here:
        hint = "Write it as the provider does: https://login.example.com/realms/staff."
        raise RuleError("is not an address of https.", hint)
    return text


def _check_scopes(text: str) -> str:
    """Refuse scopes for which a provider tells nobody who signs in."""
    if "openid" not in text.split():
        hint = "Write them with spaces between: openid email profile."
        raise RuleError("has no scope openid, without which nobody signs in.", hint)
    return text


def _make_local_url(address: str, port: int) -> str:
    """Return where what listens on *address* is asked: all of them is none to ask."""
    nearest = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here
    host = nearest.get(address, address)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


#: What people may do, by the small app; "*" is all of them.
_RolesByApp = dict[AppOrAll, Role]
_GROUPS: TypeAdapter[dict[str, _RolesByApp]] = TypeAdapter(dict[str, _RolesByApp])


def _read_groups(text: str) -> Mapping[str, _RolesByApp]:
    """Return what the people of a group may do, by the names of groups."""
    example = 'Write {"ops": {"*": "admin"}, "shop-team": {"shop": "editor"}}.'
    return read_setting(_GROUPS, text, example)


def _check_header(name: str) -> str:
    """Refuse what cannot be the name of a header."""
    if re.fullmatch(r"[A-Za-z0-9-]+", name) is None:
        hint = "Write letters, digits and hyphens: X-Forwarded-User."
        raise RuleError("is not the name of a header.", hint)
    return name


def _read_addresses(text: str) -> tuple[str, ...]:
    """Return the mail addresses in a comma-separated list."""
    return tuple(map(check_email, _read_names(text)))


def _check_line(text: str) -> str:
    """Refuse what would break a header or a table."""
    if not text.isprintable():
        hint = "Write it in one line; a tab is a space."
        raise RuleError("has a line break or another control character.", hint)
    return text


#: What may stand before an address: ``Reports <reports@example.org>``. Without quotes,
#: nothing that means something in such a header (RFC 5322, 3.2.3).
_NAMED = re.compile(r'(?:"[^"\\]*" *|[^]["<>()@,:;\\]*)<([^<>]*)>')


def _check_sender(text: str) -> str:
    """Refuse what is no mail address, alone or behind a name."""
    named = _NAMED.fullmatch(_check_line(text))
    if named is None and text.endswith(">"):
        hint = 'Put the name into quotes: "Reports: daily" <reports@example.org>.'
        raise RuleError("has a name that breaks the header.", hint)
    if not check_email(named[1] if named else text).isascii():
        hint = "Write it in ASCII; a host has a form that begins 'xn--'."
        raise RuleError("has letters that not every mail server accepts.", hint)
    return text


def _check_secret(secret: SecretStr | None) -> SecretStr | None:
    """Refuse a key that nobody can sign with."""
    if secret is not None:
        decode_secret(secret.get_secret_value())
    return secret


def _read_mail_hosts(text: str) -> frozenset[str]:
    """Return the host names in a comma-separated list, in lower case."""
    found = _read_names(text.lower())
    for each in found:
        if _HOST.fullmatch(each) is None or not each.isascii():
            msg = f"names {each!r}, which is not a host name."
            raise RuleError(msg, "Write host names with commas between: shop.example.")
    return frozenset(found)


def _read_clock(text: str) -> time:
    """Read a local time of day as ``HH:MM``."""
    if re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text) is None:
        raise RuleError("is not a time of day.", "Write HH:MM, such as 04:00.")
    return time.fromisoformat(text)


def _read_queue_prefix(prefix: str) -> str:
    """Return the prefix of the names of queues; empty for ``none``."""
    if prefix == "none":
        return ""
    if re.fullmatch(r"[a-z0-9]([a-z0-9_.-]{0,62}[a-z0-9])?", prefix) is None:
        message = "cannot be the prefix of queue names."
        hint = "Write 1 to 64 of a-z, 0-9, . _ and -, such as minutehand, or none."
        raise RuleError(message, hint)
    if prefix in _TAKEN_PREFIXES:
        message = "is a prefix that Celery itself uses in every project."
        raise RuleError(message, "Write a name of your own, such as minutehand.")
    return prefix


def _check_timezone(name: str) -> str:
    """Refuse a zone that the time zone database does not know."""
    return load_zone(name).key


def _read_smtp_url(url: str) -> str:
    """Accept a mail server, or a folder in which mails land as files."""
    if url.startswith(("/", "./", "../", "~")):  # a mistyped server is no folder
        return str(_read_path(url))
    return read_smtp_url(url)


Folder = Annotated[Path, BeforeValidator(_read_path)]
Hosts = Annotated[tuple[str, ...], _from_text(_read_hosts)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], _from_text(_read_networks)]
Elapsed = Annotated[timedelta, BeforeValidator(_read_elapsed)]


@dataclasses.dataclass(frozen=True, slots=True)
class _Origins:
    """Where each value is from that is not a default; equal settings may differ."""

    #: "environment", ".env" or "file", by field
    by_field: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)


class _Secret:
    """Marks a field that may be in a file, as Docker and Kubernetes mount secrets."""


#: Annotates each setting that is a secret or may contain one.
SECRET = _Secret()


class Settings(BaseModel):
    """
    All settings, read once at the start and handed down; never read again.

    A field's name in capitals after ``MINUTEHAND_`` is its variable. Durations are
    ISO 8601 without months or years.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    home: Folder = Field(default=Path("~/.minutehand"), validate_default=True)
    database_url: Annotated[str, AfterValidator(read_database_url), SECRET] = Field(
        default_factory=lambda data: f"sqlite:///{data['home']}/minutehand.sqlite3",
        repr=False,
    )
    broker_url: Annotated[str, AfterValidator(read_broker_url), SECRET] = Field(
        default="memory://", repr=False
    )
    #: Prefix of all our names on the broker; empty, written ``none``, means no prefix.
    queue_prefix: Annotated[str, _from_text(_read_queue_prefix)] = "minutehand"
    smtp_url: Annotated[str, AfterValidator(_read_smtp_url), SECRET] = Field(
        default_factory=lambda data: f"{data['home']}/mails", repr=False
    )
    mail_sender: Annotated[str, AfterValidator(_check_sender)] = "minutehand@localhost"
    #: What may stand behind the @ of a sender that a small app chose.
    mail_sender_hosts: Annotated[frozenset[str], _from_text(_read_mail_hosts)] = (
        frozenset()
    )
    workspace: Folder = Field(default_factory=lambda data: data["home"] / "workspace")
    timezone: Annotated[str, AfterValidator(_check_timezone)] = "UTC"

    lookback: Elapsed = LOOKBACK
    lease_ttl: Elapsed = LEASE
    lease_heartbeat: Elapsed = RENEWED_EVERY
    operation_lease: Elapsed = LEASE
    operation_heartbeat: Elapsed = RENEWED_EVERY

    quick_soft_limit: Elapsed = timedelta(minutes=5)
    quick_hard_limit: Elapsed = timedelta(minutes=6)
    heavy_soft_limit: Elapsed = timedelta(hours=2)
    heavy_hard_limit: Elapsed = timedelta(hours=2, minutes=10)
    #: Bytes. A process that has grown beyond is replaced: allocators keep what a large
    #: operation took, and the host would run out of memory. Far above what a process
    #: needs at rest, because replacing one takes a while.
    worker_max_memory: int = Field(default=1 << 30, ge=256 << 20)
    #: Bytes of all data versions of one small app.
    workspace_per_app: int = Field(default=20 << 30, ge=1 << 20)
    database_timeout: Elapsed = timedelta(seconds=10)
    broker_timeout: Elapsed = timedelta(seconds=5)
    #: Rows written, or messages sent, at once: small enough for a statement to
    #: end well within ``database_timeout``.
    chunk: int = Field(default=1000, ge=1, le=5000)

    #: Share of the quick queue's slots for one app while others wait; 1: no limit.
    app_share: float = Field(default=0.5, gt=0, le=1)

    #: Whether what mails said is kept, as long as their operations.
    keep_mails: bool = True

    maintenance_enabled: bool = True
    maintenance_at: Annotated[time, _from_text(_read_clock)] = time(4)
    retention: Elapsed = timedelta(days=30)
    #: The same of actions that are due more often than once a minute.
    retention_below_minute: Elapsed = timedelta(days=1)

    task_queue: Annotated[str, AfterValidator(check_queue)] | None = None
    task_connections: Annotated[
        Mapping[str, str], _from_text(read_connections), SECRET
    ] = Field(default_factory=dict, repr=False)
    task_results: Annotated[Mapping[str, str], _from_text(_read_results), SECRET] = (
        Field(default_factory=dict, repr=False)
    )
    task_rules: Annotated[
        Mapping[str, ConnectionRules], _from_text(read_connection_rules), SECRET
    ] = Field(default_factory=dict, repr=False)
    #: What the actions of a small app may be together: docs/apps.md.
    app_bounds: Annotated[Mapping[str, AppBounds], _from_text(read_app_bounds)] = Field(
        default_factory=dict
    )
    #: Bytes of the arguments of one task.
    task_max_bytes: int = Field(default=64 << 10, ge=1 << 10)
    #: Messages in a queue of theirs beyond which none of ours is added.
    task_queue_max: int = Field(default=100_000, ge=1)
    notice_mail: Annotated[tuple[str, ...], _from_text(_read_addresses)] = ()
    notice_webhook: Annotated[str, AfterValidator(check_notice_url)] | None = Field(
        default=None, repr=False
    )

    #: An outside monitor that hears of each tick: docs/notices.md.
    leader_ping: Annotated[str, AfterValidator(check_ping)] | None = Field(
        default=None, repr=False
    )

    webhook_secret: Annotated[
        SecretStr | None, AfterValidator(_check_secret), SECRET
    ] = None
    webhook_allowed_hosts: Hosts = ()

    #: Who changes things, for the record; the command line asks the system if unset.
    actor: Annotated[str, Field(max_length=200), AfterValidator(_check_line)] | None = (
        None
    )

    #: What a small app may read, and how much: docs/apps.md.
    source_allowed_hosts: Hosts = ()
    sql_connections: Annotated[
        Mapping[str, SqlConnection], _from_text(read_sql_connections), SECRET
    ] = Field(default_factory=dict, repr=False)
    source_max_bytes: ByteSize = Field(default=ByteSize(4 << 30), ge=1)
    source_max_rows: int = Field(default=50_000_000, ge=1)
    source_max_columns: int = Field(default=2_000, ge=1)
    #: Python, Polars and its threads take some 150 MiB before they read anything.
    source_max_memory: ByteSize = Field(default=ByteSize(2 << 30), ge=256 << 20)
    source_timeout: Elapsed = timedelta(minutes=30)

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    metrics_port: int | None = Field(default=None, ge=1, le=65535, examples=[9464])
    #: Metrics reveal apps and their work: by default, only to this host.
    metrics_address: Annotated[str, _from_text(_read_address)] = "127.0.0.1"
    metrics_apps: Annotated[tuple[Uid, ...], _from_text(_read_names)] = ()

    #: The HTTP API: docs/api.md. Empty: none in ``up`` and ``demo``.
    web_address: Annotated[str, _from_text(_read_listen)] = "127.0.0.1:8400"
    #: As seen from outside, such as https://minutehand.example.org
    web_url: Annotated[str, AfterValidator(_check_base)] | None = None
    #: Requests that work in the database at the same time, each with a connection.
    web_threads: int = Field(default=8, ge=1, le=100)
    #: Connections of clients at the same time.
    web_connections: int = Field(default=2000, ge=10, le=100_000)
    #: Proxies that sign people in, and the header in which they name them.
    web_proxies: Networks = ()
    web_proxy_header: Annotated[str, AfterValidator(_check_header)] | None = None
    #: What the people may do whom a proxy signs in.
    web_proxy_role: Role = Role.VIEWER

    #: The company's identity provider, and who of its people may do what.
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] | None = None
    oidc_client_id: str | None = Field(default=None, max_length=255)
    oidc_client_secret: Annotated[SecretStr | None, SECRET] = None
    oidc_groups: Annotated[Mapping[str, _RolesByApp], _from_text(_read_groups)] = Field(
        default_factory=dict
    )
    oidc_groups_claim: str = "groups"
    oidc_scopes: Annotated[str, AfterValidator(_check_scopes)] = "openid email profile"

    #: With which ``minutehand mcp`` asks on standard input and output.
    mcp_key: Annotated[SecretStr | None, SECRET] = None

    _origins: _Origins = PrivateAttr(default_factory=_Origins)

    @property
    def is_embedded(self) -> bool:
        """Whether messages stay in the memory of one process, ``minutehand up``."""
        return self.broker_url.startswith("memory")

    @property
    def web_host(self) -> str:
        """The IP address on which the HTTP API listens."""
        return self.web_address.rpartition(":")[0].strip("[]")

    @property
    def web_port(self) -> int:
        """The port on which the HTTP API listens; 0 is any that is free."""
        return int(self.web_address.rpartition(":")[2] or 0)

    def make_web_url(self, port: int) -> str:
        """Return where clients reach what listens on *port*, without a last slash."""
        if self.web_url is not None:
            return self.web_url.rstrip("/")
        return _make_local_url(self.web_host, port)

    @property
    def metrics_url(self) -> str | None:
        """The URL at which this host reads its scheduler's metrics, or None."""
        if self.metrics_port is None:
            return None
        return f"{_make_local_url(self.metrics_address, self.metrics_port)}/metrics"

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Refuse values that are fine alone but defeat each other."""
        for heartbeat, lease in (
            ("lease_heartbeat", "lease_ttl"),
            ("operation_heartbeat", "operation_lease"),
        ):
            if getattr(self, lease) < _THREE_SECONDS:
                hint = f"Write it like the default, {_default(lease)}."
                raise _ClashError(lease, "is too short to be renewed in time.", hint)
            if getattr(self, heartbeat) * 3 > getattr(self, lease):
                said = f"is more than a third of {_variable(lease)}: two lost renewals"
                # Whole seconds, so that the advice is short and never too long.
                hint = f"Write at most PT{getattr(self, lease) // _THREE_SECONDS}S."
                raise _ClashError(heartbeat, f"{said} would end the lease.", hint)
        for field, bound, why in _SHORTER:
            if getattr(self, field) >= getattr(self, bound):
                said = f"is not shorter than {_variable(bound)}: {why}"
                hint = f"Write less than {_iso(getattr(self, bound))}."
                raise _ClashError(field, said, hint)
        if self.web_proxy_header is not None and not self.web_proxies:
            said = f"is believed of nobody: {_variable('web_proxies')} lists none."
            hint = "Write there the addresses of the proxies that sign people in."
            raise _ClashError("web_proxy_header", said, hint)
        self._check_oidc()
        self._check_bounds()
        self._check_connections()
        self._check_tasks()
        return self

    def _check_oidc(self) -> None:
        """Refuse a provider without what it takes to sign somebody in."""
        needed = ("oidc_issuer", "oidc_client_id", "oidc_groups")
        there = [name for name in needed if getattr(self, name)]
        missing = [_variable(name) for name in needed if name not in there]
        if there and missing:
            said = f"does nothing without {missing[0]}."
            raise _ClashError(there[0], said, "Set both: docs/sign-in.md.")

    def make_task_rules(self) -> TaskRules:
        """Return where ``run_task`` may send tasks; door and workers check it."""
        return TaskRules(
            own_prefix=self.queue_prefix,
            default_queue=self.task_queue,
            connections=tuple(self.task_connections),
            has_broker=not self.is_embedded,
            with_exchanges=self._find_exchanges(),
            by_connection={
                name or None: each for name, each in self.task_rules.items()
            },
            most_bytes=self.task_max_bytes,
        )

    def _find_exchanges(self) -> frozenset[str | None]:
        """Return the connections that lead to RabbitMQ; None is our own broker."""
        named = self.task_connections.items()
        found = frozenset(name for name, url in named if url.startswith("amqp"))
        return found | {None} if self.broker_url.startswith("amqp") else found

    def _check_tasks(self) -> None:
        """Refuse a queue of ours, and results of what is no connection."""
        if self.task_queue is not None:
            try:
                self.make_task_rules().read_queue(self.task_queue)
            except RuleError as error:
                raise _ClashError("task_queue", error.message, error.hint) from None
        for field in ("task_rules", "task_results"):
            for name in getattr(self, field).keys() - {"", *self.task_connections}:
                said = f"names {name!r}, which is no connection."
                known = _variable("task_connections")
                raise _ClashError(
                    field, said, f"Name it in {known}, too, or leave it out."
                )
        for name, url in self.task_connections.items():
            rules = self.task_rules.get(name, ConnectionRules())
            if url.startswith("sentinel") and not rules.master:
                said = f"has Sentinels, {name!r}, without the name of their master."
                hint = (
                    f"Write it into {_variable('task_rules')}, as 'master_name' among"
                )
                hint += " the transport_options."
                raise _ClashError("task_connections", said, hint)

    def name_starter(self, command: str) -> str:
        """Return *command*, or ``minutehand up`` where that runs all parts in one."""
        return "minutehand up" if self.is_embedded else command

    def _check_connections(self) -> None:
        """Refuse to let small apps query our own database; workers check again."""
        ours = find_sqlite_path(self.database_url)
        for name, connection in self.sql_connections.items():
            url = connection.url.get_secret_value()
            path = find_sqlite_path(url)
            if path is None and ours is None:
                databases = find_databases(self.database_url)
                same = bool(databases & find_databases(url))
            else:
                same = os.path.realpath(path or "") == os.path.realpath(ours or "")
            if same:
                said = f"has a connection {name!r} to Minutehand's own database."
                raise _ClashError("sql_connections", said, "Name another database.")
            if find_roles(self.database_url) & find_roles(url):
                said = (
                    f"has a connection {name!r} as Minutehand's own role: its queries"
                )
                hint = "Name a role that may do nothing but read."
                said += " could end our sessions."
                raise _ClashError("sql_connections", said, hint)

    def _check_bounds(self) -> None:
        """Refuse durations that would break a promise with any other settings."""
        minute, day = timedelta(minutes=1), timedelta(days=1)
        if self.lookback < minute:
            said = "is shorter than the minute between two ticks: occurrences between"
            said += " them would be missed."
            raise _ClashError("lookback", said, "Write at least PT1M.")
        for name in ("retention", "retention_below_minute"):
            if getattr(self, name) < max(day, self.lookback):
                said = "is so short that an operation could be pruned while its"
                said += " occurrence still counts as due, and then run again."
                least = _iso(max(day, self.lookback))
                raise _ClashError(name, said, f"Write at least {least}.")


def read_settings(
    environ: Mapping[str, str] | None = None, env_file: str | Path | None = ".env"
) -> Settings:
    """
    Read the settings, or say what is wrong with them, all at once.

    Args:
        environ: Variables; None means those of the process.
        env_file: File with more variables, which *environ* overrides; it need not
            exist. None means no file.

    Returns:
        Settings with every default filled in. An empty variable counts as unset.

    Raises:
        UsageError: If a variable is unknown or invalid. The message has a line for
            each, with secrets masked.
    """
    given: dict[str, str] = {}
    if env_file is not None:
        given |= _read_file(env_file)
    given |= os.environ if environ is None else environ

    mistakes: list[str] = []
    values: dict[str, str] = {}
    files: dict[str, str] = {}
    for name, value in sorted(given.items()):
        if not name.upper().startswith(PREFIX) or name.startswith(_FOREIGN_PREFIX):
            continue
        field = name.removeprefix(PREFIX).lower()
        of_file = field.removesuffix(_FILE_SUFFIX.lower())
        if field in Settings.model_fields and name == _variable(field):
            if value.strip():
                values[field] = value.strip()
        elif is_secret(of_file) and name == _variable(of_file) + _FILE_SUFFIX:
            if value.strip():
                files[of_file] = value.strip()
        else:
            mistakes.append(_explain_unknown(name))
    from_process = os.environ if environ is None else environ
    origins = {
        field: "environment" if _variable(field) in from_process else ".env"
        for field in values
    } | dict.fromkeys(files, "file")
    mistakes += _read_secrets(files, values)
    try:
        settings = Settings.model_validate(values)
        settings._origins = _Origins(origins)  # noqa: SLF001 - told by no variable
    except ValidationError as error:
        mistakes += [
            _explain_invalid(details, values, files)
            for details in error.errors(include_url=False)
            # A default derived from a bad value, which is reported itself.
            if details["type"] != "default_factory_not_called"
        ]
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return settings


def describe_settings(settings: Settings) -> dict[str, tuple[str, str]]:
    """
    Return each setting by variable, as text without secrets, and where it is from.

    Of addresses of servers, user, password and parameters are left out; of a webhook
    or a monitor, all but the host; of connections, all but the names. A secret is set,
    or not set.
    """
    given = settings.model_dump(mode="json")
    return {
        _variable(field): (
            _describe(field, getattr(settings, field), given[field]),
            settings._origins.by_field.get(field, "default"),  # noqa: SLF001 - our own
        )
        for field in Settings.model_fields
    }


def _describe(field: str, value: object, shown: object) -> str:
    if value is None or value == "":
        return "not set"
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(sorted(value)) or "none"
    if isinstance(shown, list):
        return ", ".join(map(str, shown)) or "none"
    return _describe_text(field, str(shown))


def _describe_text(field: str, text: str) -> str:
    """Return *text*; if it is the address of a server, without what signs in there."""
    if "://" not in text and field not in _ADDRESSES:
        return text
    address = hide_sign_in(text)
    if field in _HOOKS:
        return re.sub(r"(?s)^((?:\w+://)?+[^/]*)/.*", r"\1/...", address)
    return address


def _read_file(path: str | Path) -> dict[str, str]:
    try:
        found = dotenv_values(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {_explain_unreadable(error)}."
        ) from None
    return {name: value or "" for name, value in found.items()}


def _explain_unreadable(error: OSError | UnicodeDecodeError) -> str:
    return getattr(error, "strerror", None) or "it is not text in UTF-8"


def is_secret(field: str) -> bool:
    """Tell whether *field* is a setting that may be in a file of its own."""
    info = Settings.model_fields.get(field)
    return info is not None and SECRET in info.metadata


def _read_secrets(files: Mapping[str, str], values: dict[str, str]) -> list[str]:
    """Add to *values* what is in *files*, by field; return what is wrong with them."""
    mistakes = []
    for setting, path in files.items():
        name = _variable(setting) + _FILE_SUFFIX
        if setting in values:
            mistakes.append(f"{_variable(setting)} and {name} are both set. Keep one.")
            continue
        try:
            text = _read_path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = _explain_unreadable(error)
            mistakes.append(f"{name}: {path!r} cannot be read: {reason}.")
            continue
        except RuleError as error:
            mistakes.append(f"{name}: {path!r} {error}")
            continue
        if not text.strip():
            mistakes.append(f"{name}: {path!r} is empty. Write the secret into it.")
            continue
        values[setting] = text
    return mistakes


def read_child_environment() -> dict[str, str]:
    """Return the environment for a process that needs no setting, and no secret."""
    given = os.environ.items()
    kept = {name: value for name, value in given if not name.startswith(PREFIX)}
    # A reader takes more memory with each thread, and several slots read at a time.
    return {"POLARS_MAX_THREADS": _READER_THREADS, **kept, **_ALLOCATOR}


def read_notify_socket() -> str | None:
    """Return where systemd hears from a service; None: it did not ask."""
    return os.environ.get("NOTIFY_SOCKET")


def find_collector(
    signal: Literal["TRACES", "METRICS"], environ: Mapping[str, str] | None = None
) -> str | None:
    """
    Return how *signal* goes to a collector, by OpenTelemetry's own variables.

    Returns:
        The protocol, empty if none is named. None: no collector is, or nothing is to
        be sent.
    """
    given = os.environ if environ is None else environ

    def read(name: str) -> str:
        return given.get(f"OTEL_{name}", "").strip()

    def read_of_signal(name: str) -> str:
        return read(f"EXPORTER_OTLP_{signal}_{name}") or read(f"EXPORTER_OTLP_{name}")

    is_off = read("SDK_DISABLED").lower() == "true"
    if is_off or read(f"{signal}_EXPORTER").lower() == "none":
        return None
    return read_of_signal("PROTOCOL") if read_of_signal("ENDPOINT") else None


def is_color_wanted(environ: Mapping[str, str] | None = None) -> bool:
    """Tell whether ``NO_COLOR`` (no-color.org) is unset or empty."""
    return not (os.environ if environ is None else environ).get("NO_COLOR")


class _ClashError(ValueError):
    """Two settings that defeat each other; *field* is the one to change."""

    def __init__(self, field: str, message: str, hint: str) -> None:
        """Keep *field*: pydantic reports such errors for the model as a whole."""
        super().__init__(f"{message} {hint}")
        self.field = field


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def _iso(duration: timedelta) -> str:
    return str(Duration.from_elapsed(duration))


def _default(field: str) -> str:
    default = Settings.model_fields[field].default
    return _iso(default) if isinstance(default, timedelta) else str(default)


def _explain_unknown(name: str) -> str:
    fields = Settings.model_fields
    known = [_variable(field) for field in fields]
    known += [_variable(field) + _FILE_SUFFIX for field in fields if is_secret(field)]
    near = find_near(name, known)
    hint = f"Did you mean {near}? " if near else ""
    return f"{name} is not a setting. {hint}docs/settings.md lists them all."


def _explain_invalid(
    details: ErrorDetails, values: Mapping[str, str], files: Mapping[str, str]
) -> str:
    """Return one of pydantic's errors in our words: variable, value, what to write."""
    context: dict[str, Any] = details.get("ctx", {})
    error = context.get("error")
    if isinstance(error, _ClashError):
        return f"{_variable(error.field)}: {_show(error.field, values)} {error}"
    field = str(details["loc"][0])
    shown = _show(field, values)
    name = _variable(field) + (_FILE_SUFFIX if field in files else "")
    if isinstance(error, ValueError):
        # Most readers in models quote the value themselves; those above do not.
        said, quoted = str(error), show(values.get(field))
        if quoted in said:
            return f"{name}: {said.replace(quoted, shown)}"
        return f"{name}: {shown} {said}"
    if details["type"] in {"literal_error", "enum"}:
        # pydantic lists the choices as "'a', 'b' or 'c'".
        choices = re.findall(r"'([^']+)'", context["expected"])
        hint = suggest(values.get(field, ""), choices)
        return f"{name}: {shown} is not accepted. {hint}"
    refusal = _REFUSALS.get(details["type"], _REFUSAL)
    return f"{name}: {shown} {refusal.format(**context, example=_example(field))}"


#: What is wrong with a value, and the way out, by what pydantic calls it.
_REFUSALS = {
    "int_parsing": "is not a whole number. Write one such as {example}.",
    "int_parsing_size": "is not a whole number. Write one such as {example}.",
    "float_parsing": "is not a number. Write one such as {example}.",
    "greater_than": "is too small. Write more than {gt}.",
    "greater_than_equal": "is too small. Write at least {ge}.",
    "less_than_equal": "is too large. Write at most {le}.",
    "bool_parsing": "is neither true nor false. Write true or false.",
    "byte_size": "is not a size. Write a number of bytes, or one such as 2GiB.",
    "byte_size_unit": "is not a size. Write a number of bytes, or one such as 2GiB.",
    "string_too_long": "is too long. Write at most {max_length} characters.",
}
_REFUSAL = "is not accepted. docs/settings.md says what is."


def _example(field: str) -> str:
    """Return a number that *field* takes."""
    info = Settings.model_fields[field]
    return str(info.examples[0] if info.examples else info.default)


def _show(field: str, values: Mapping[str, str]) -> str:
    """Quote the value of *field* without the secrets that it may hold."""
    if field not in values:
        return f"its default {_default(field)}"
    if field in _HIDDEN:
        return "its value"
    return repr(_describe_text(field, values[field]))
