"""
A small app as ``apps apply`` takes it. Pure.

A part that is None is not mentioned by the document and stays as it is; an empty part
removes all entries. A field of a user that is null in the document is cleared, one that
is absent stays as it is; ``model_fields_set`` tells the two apart.
"""

from __future__ import annotations

import re
from datetime import date
from functools import partial
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from models.days_off import DateRangeModel, choose_days
from models.errors import RuleError
from models.fields.addresses import check_email, check_notice_url, check_url
from models.fields.field_types import (
    DomainName,
    Instant,
    Name,
    Names,
    Uid,
    UserName,
    ZoneName,
    check_name,
    demand,
)
from models.fields.sql_connection import check_connection_name
from models.fields.strict_model import (
    Complaint,
    DocumentModel,
    Most,
    optional,
    refuse,
    refuse_all,
    show,
)

#: Users in one document; more can be applied in several.
MOST_USERS = 100_000

#: Domains of one small app, and its templates, and its holiday calendars.
MOST_PARTS = 1_000

#: Days and ranges of days of one holiday calendar.
MOST_HOLIDAYS = 10_000

#: Characters of what an app says about a domain, and of a unit.
LONGEST_DESCRIPTION = 500
LONGEST_UNIT = 20

#: Characters of a name in a From header, and of an address for unsubscribing: both
#: stay on one line, which RFC 5322 limits to 998 characters.
LONGEST_FROM_NAME = 100
LONGEST_UNSUBSCRIBE = 500

#: Addresses that a notice goes to; for more people, use a mailing list.
MOST_NOTICE_MAILS = 20


_Entry = TypeVar("_Entry")


def check_source_file(text: str) -> str:
    """
    Refuse a path that cannot be a file below the app's folder.

    Whether an absolute path is below it, and where links lead, is checked later.
    """
    parts = text.split("/")
    if ".." in parts or any(map(_is_hidden, parts)):
        msg = f"{show(text)} leads out of the app's folder, or to a hidden file."
        hint = "Write a path below that folder, such as 'data/sales.csv'."
        raise RuleError(msg, hint)

    return text


def _is_hidden(name: str) -> bool:
    # Names that Kubernetes mounts begin with two dots.
    return name.startswith(".") and name != "." and not name.startswith("..")


def check_sender(text: str) -> str:
    """Refuse an address that a header could not hold as it is."""
    if check_email(text).isascii():
        return text
    msg = f"{show(text)} has letters that not every mail server accepts."
    raise RuleError(msg, "Write it in ASCII; a host has a form that begins 'xn--'.")


def check_unsubscribe(text: str) -> str:
    """Refuse what is neither an https address nor that of a mail."""
    hint = "Write 'https://example.com/stop' or 'mailto:stop@example.com'."
    scheme, _, rest = text.partition(":")
    if not text.isascii() or set(text) & set('<>," '):
        msg = f"{show(text)} has a character that must be written as %XX."
        raise RuleError(msg, hint)
    if scheme.lower() == "mailto":
        check_email(rest.partition("?")[0])
        if re.search(r"[\x00-\x1f\x7f]", rest):
            raise RuleError(f"{show(text)} contains a control character.", hint)
        return text
    if scheme.lower() != "https":
        raise RuleError(f"{show(text)} begins with neither https: nor mailto:.", hint)

    return check_url(text)


MailAddress = Annotated[str, Field(max_length=320), AfterValidator(check_email)]
SenderAddress = Annotated[str, Field(max_length=320), AfterValidator(check_sender)]
WebAddress = Annotated[str, Field(max_length=2000), AfterValidator(check_url)]
NoticeAddress = Annotated[str, Field(max_length=2000), AfterValidator(check_notice_url)]
Locale = Annotated[
    str,
    Field(max_length=100),
    demand(
        r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,3}",
        "a locale",
        "Write a language, and perhaps a country: 'en', 'fr-CH'.",
    ),
]


_Unit = Annotated[str, Field(max_length=LONGEST_UNIT), AfterValidator(check_name)]
_Description = Annotated[
    str, Field(max_length=LONGEST_DESCRIPTION), AfterValidator(check_name)
]
_FromName = Annotated[
    str, Field(max_length=LONGEST_FROM_NAME), AfterValidator(check_name)
]
_Unsubscribe = Annotated[
    str, Field(max_length=LONGEST_UNSUBSCRIBE), AfterValidator(check_unsubscribe)
]
_SourceFile = Annotated[
    str, Field(min_length=1, max_length=1000), AfterValidator(check_source_file)
]


class UserModel(DocumentModel):
    """A user of the small app; absent fields stay as they are."""

    id: UserName = Field(examples=["u1"])
    email: MailAddress | None = optional("ada@example.com")
    name: Name | None = optional("Ada")
    locale: Locale | None = optional("en")
    groups: Names | None = optional(["manager"])
    disabled: bool = False
    expires_at: Instant | None = optional("2027-01-01T00:00:00Z")
    created_at: Instant | None = optional("2026-01-01T00:00:00Z")
    activated_at: Instant | None = optional("2026-01-01T00:00:00Z")
    last_seen_at: Instant | None = optional("2026-01-01T00:00:00Z")


class SourceModel(DocumentModel):
    """
    Where the data of a domain comes from: exactly one of file, url and sql.

    Args:
        file: A path below the folder that an operator gave the app with ``apps apply``.
        sql: A query, run on *connection*.
        connection: The name of a database that an operator lets the app query.
        format: The format of a file or address; None: by its ending.
    """

    file: _SourceFile | None = optional("sales.csv")
    url: WebAddress | None = optional("https://example.com/sales.csv")
    sql: Annotated[str, Field(min_length=1, max_length=100_000)] | None = optional(
        "select * from sales"
    )
    connection: Annotated[str, AfterValidator(check_connection_name)] | None = optional(
        "warehouse"
    )
    format: Literal["csv", "json", "jsonl", "ndjson", "parquet"] | None = optional(
        "csv"
    )

    @model_validator(mode="after")
    def _refuse_mixtures(self) -> Self:
        given = [name for name in ("file", "url", "sql") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(f"'{name}'" for name in given) or "nothing"
            msg = f"A source has exactly one of 'file', 'url' and 'sql'; found {found}."
            raise RuleError(msg, 'Write, for instance, {"file": "sales.csv"}.')
        if (self.sql is None) != (self.connection is None):
            msg = "'sql' and 'connection' belong together; one is missing."
            hint = "Write both; the operator knows the names of connections."
            raise RuleError(msg, hint)
        if self.sql is not None and self.format is not None:
            msg = f"'format' is {show(self.format)}, but the rows of SQL have none."
            raise RuleError(msg, "Leave 'format' out.")
        return self


class ColumnModel(DocumentModel):
    """
    How the executive summary shows a column.

    Args:
        title: Absent: the name of the column.
        unit: Stands behind each number.
        sum: Whether adding up its numbers means something. Absent: the summary decides.
    """

    title: Name | None = optional("Turnover")
    unit: _Unit | None = optional("€")
    sum: bool | None = optional(example=True)


_Column = Annotated[str, Field(min_length=1, max_length=200)]


class DomainModel(DocumentModel):
    """A named data set, where it comes from, and how the executive summary shows it."""

    name: DomainName = Field(examples=["sales"])
    source: SourceModel = Field(examples=[{"file": "sales.csv"}])
    title: Name | None = optional("Sales by store")
    description: _Description | None = optional(
        "What the shops reported by the evening."
    )
    columns: Annotated[dict[_Column, ColumnModel], Most(MOST_PARTS)] | None = optional(
        {"amount": {"title": "Turnover", "unit": "€"}}
    )


class TemplateModel(DocumentModel):
    """A mail: Jinja2 templates for the subject and for one or both bodies."""

    subject: Annotated[str, Field(min_length=1, max_length=1000)] = Field(
        examples=["We miss you"]
    )
    text: str | None = optional("Hello {{ user.name }}")
    html: str | None = optional("<p>Hello {{ user.name }}</p>")

    @field_validator("subject")
    @classmethod
    def _check_subject(cls, subject: str) -> str:
        # A line break in a subject would begin a header of its own.
        if "\n" in subject or "\r" in subject:
            msg = f"{show(subject)} has more than one line."
            raise RuleError(msg, "Write the subject on one line.")

        return subject

    @model_validator(mode="after")
    def _check_body(self) -> Self:
        if not (self.text or self.html):
            msg = "The template has neither 'text' nor 'html'."
            raise RuleError(msg, 'Add "text": "Hello {{ user.name }}".')

        return self


class NoticesModel(DocumentModel):
    """Who gets notices that operations failed, were missed or left mails uncertain."""

    mail: Annotated[tuple[MailAddress, ...], Most(MOST_NOTICE_MAILS)] = Field(
        default=(), examples=[["ops@example.com"]]
    )
    webhook: NoticeAddress | None = optional("https://example.com/minutehand")


class MailModel(DocumentModel):
    """
    What an app writes on its mails beside their content.

    Args:
        from_name: Shown as the sender. Absent: that of the installation.
        from_address: The sender, if the operator allows its host.
        reply_to: Where answers go. Absent: to the sender.
        unsubscribe: An https or mailto address; mail programs show a button for it.
        locale: The language for people who have none.
    """

    from_name: _FromName | None = optional("Shop reports")
    from_address: SenderAddress | None = optional("reports@shop.example")
    reply_to: SenderAddress | None = optional("help@shop.example")
    unsubscribe: _Unsubscribe | None = optional("mailto:help@shop.example?subject=stop")
    locale: Locale | None = optional("fr")


class AppDocumentsModel(DocumentModel):
    """The documents that publish makes live; their content is up to the app."""

    design: dict[str, JsonValue] | None = optional({})
    permissions: dict[str, JsonValue] | None = optional({})


HolidayModel = Annotated[date | DateRangeModel, WrapValidator(choose_days)]
_Holidays = Annotated[tuple[HolidayModel, ...], Most(MOST_HOLIDAYS)]


def _refuse_repeated(entries: tuple[_Entry, ...], key: str) -> tuple[_Entry, ...]:
    """Refuse each entry whose *key* an earlier one has."""
    seen: set[object] = set()
    details: list[InitErrorDetails] = []
    for index, entry in enumerate(entries):
        value = getattr(entry, key)
        if value in seen:
            said = f"{show(value)} appears more than once."
            complaint = Complaint(said, "Keep one of them.")
            details.append(refuse(complaint, loc=(index, key), value=value))
        seen.add(value)

    if details:
        raise refuse_all(key, details)

    return entries


Users = Annotated[
    tuple[UserModel, ...],
    Most(MOST_USERS),
    AfterValidator(partial(_refuse_repeated, key="id")),
]
Domains = Annotated[
    tuple[DomainModel, ...],
    Most(MOST_PARTS),
    AfterValidator(partial(_refuse_repeated, key="name")),
]


class SmallAppModel(DocumentModel):
    """A small app (tenant): its users, data sources, mails and holidays."""

    uid: Uid = Field(examples=["shop"])
    name: Name | None = optional("Shop")
    timezone: ZoneName | None = optional("Europe/Paris")
    users: Users | None = optional([{"id": "u1", "email": "ada@example.com"}])
    domains: Domains | None = optional(
        [{"name": "sales", "source": {"file": "sales.csv"}}]
    )
    templates: Annotated[dict[Name, TemplateModel], Most(MOST_PARTS)] | None = optional(
        {"inactive": {"subject": "Hello", "text": "Hello"}}
    )
    documents: AppDocumentsModel | None = optional({"design": {}, "permissions": {}})
    holidays: Annotated[dict[Name, _Holidays], Most(MOST_PARTS)] | None = optional(
        {"fr": ["2026-12-25"]}
    )
    notices: NoticesModel | None = optional({"mail": ["ops@example.com"]})
    mail: MailModel | None = optional({"from_name": "Shop reports"})


class DirectoryModel(DocumentModel):
    """All users of a small app."""

    users: Users = Field(examples=[[{"id": "u1", "email": "ada@example.com"}]])
