"""
Send mails to a mail server, or write them as files into a folder.

The SMTP dialogue is written out command by command, because it matters where it breaks:
before the content, nothing has left; after it, nobody knows.
"""

from __future__ import annotations

import os
import re
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit
from uuid import uuid4

from models.errors import UsageError
from operations.mail.message import Fate, Mail, Senders, Sending, make_address
from operations.ports import Mailer, SendMail

#: For connecting, and for each answer; shorter than an operation's lease.
TIMEOUT = timedelta(seconds=30)

_SUBMISSION_PORT = 25
_TLS_PORT = 465

_READY_FOR_CONTENT = 354
_FIRST_PERMANENT = 500


#: This header holds an address that may be longer than a line.
_UNSUBSCRIBE = "List-Unsubscribe"


class _Policy(EmailPolicy):
    """
    How headers are written: as Python does it, but for one.

    It would cut a long address into encoded words, which no mail program undoes there.
    """

    def fold(self, name: str, value: str) -> str:
        """Return the header; the address stays whole, and was limited when stored."""
        if name == _UNSUBSCRIBE:
            return f"{name}: {value}{self.linesep}"
        return str(super().fold(name, value))

    def fold_binary(self, name: str, value: str) -> bytes:
        """Return the same in bytes."""
        if name == _UNSUBSCRIBE:
            return self.fold(name, value).encode("ascii")
        return super().fold_binary(name, value)


_POLICY = _Policy(linesep="\r\n")


def make_mailer(
    address: str, *, sender: str | Senders, timeout: timedelta = TIMEOUT
) -> Mailer:
    """
    Return the mailer for *address*; nothing is opened.

    Args:
        address: ``smtp://user:password@host:port`` (TLS if the server offers it),
            ``smtps://...`` (TLS from the first byte, certificate checked), or a
            folder: a path, or ``file:///path``.
        sender: The From address, such as "Reports <reports@example.com>", and perhaps
            the hosts of which small apps may choose another.
        timeout: For each answer of the server.

    Raises:
        UsageError: *address* is neither a mail server nor a folder.
    """
    parts = urlsplit(address)
    senders = Senders(sender) if isinstance(sender, str) else sender
    if parts.scheme in {"smtp", "smtps"} and parts.hostname:
        return SmtpMailer(parts, senders=senders, timeout=timeout)
    if parts.scheme == "file":
        return FolderMailer(Path(unquote(parts.path)), senders=senders)
    if "://" not in address and address:
        return FolderMailer(Path(address), senders=senders)

    msg = (
        f"{parts.scheme}://… is neither a mail server nor a folder. "
        "Write smtp://user:password@host:port, smtps://… or a folder."
    )
    raise UsageError(msg)


def name_mail_server(address: str) -> str:
    """Return the name of the mail server or folder for people, without credentials."""
    parts = urlsplit(address)
    if parts.scheme in {"smtp", "smtps"}:
        return f"mail server {parts.hostname}:{parts.port or ''}".rstrip(":")
    return f"mail folder {unquote(parts.path)}"


def make_message(mail: Mail, *, senders: Senders, now: datetime) -> EmailMessage:
    """
    Return *mail* as a message.

    Raises:
        ValueError: A header would be invalid, such as the address.
    """
    letterhead = mail.letterhead
    message = EmailMessage(policy=_POLICY)
    message["From"] = senders.choose(letterhead)
    message["To"] = make_address(mail.name, mail.address)
    if letterhead.reply_to:
        message["Reply-To"] = make_address("", letterhead.reply_to)
    # Steps make it one line already; a line break here would begin a new header.
    message["Subject"] = " ".join(mail.subject.split())
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{mail.message_id}>"
    # Out-of-office assistants must not answer (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    if letterhead.unsubscribe:
        message[_UNSUBSCRIBE] = f"<{letterhead.unsubscribe}>"
    if mail.text is not None:
        message.set_content(mail.text)
        if mail.html is not None:
            message.add_alternative(mail.html, subtype="html")
    elif mail.html is not None:
        message.set_content(mail.html, subtype="html")
    for attachment in mail.attachments:
        message.add_attachment(
            attachment.content,
            maintype="application",
            subtype=attachment.subtype,
            filename=attachment.name,
        )
    return message


class FolderMailer:
    """Writes each mail as an ``.eml`` file, for development and tests."""

    def __init__(self, folder: Path, *, senders: Senders) -> None:
        """Take *folder*; it is created with the first mail."""
        self._folder = folder
        self._senders = senders

    @contextmanager
    def session(self) -> Iterator[SendMail]:
        """Return a session; a folder needs none."""
        yield self._send

    def _send(self, mail: Mail, *, now: datetime) -> Sending:
        try:
            content = make_message(mail, senders=self._senders, now=now).as_bytes()
        except (ValueError, MessageError) as error:
            return Sending(Fate.REFUSED, str(error))
        # The Message-ID makes the name unique; colons and the like are not for files.
        name = re.sub(r"[^A-Za-z0-9._-]", "_", mail.message_id)
        path = self._folder / f"{now:%Y%m%dT%H%M%S}-{name}.eml"
        draft = self._folder / f".{uuid4()}.part"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # A program that watches the folder never sees half a mail.
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            detail = f"{self._folder}: {error.strerror}"
            return Sending(Fate.UNREACHABLE, detail, blames_server=True)
        return Sending(Fate.SENT, path.name)


class SmtpMailer:
    """Speaks SMTP; one connection for the mails of one step."""

    def __init__(
        self, address: SplitResult, *, senders: Senders, timeout: timedelta
    ) -> None:
        """Take the parts of ``smtp(s)://user:password@host:port``."""
        self._address = address
        self._senders = senders
        self._timeout = timeout

    @contextmanager
    def session(self) -> Iterator[SendMail]:
        """Return a session that connects at its first mail and quits at the end."""
        session = _SmtpSession(self._address, self._senders, self._timeout)
        try:
            yield session
        finally:
            session.quit()


class _SmtpSession:
    """An SMTP connection that is opened again if the server has closed it."""

    def __init__(
        self, address: SplitResult, senders: Senders, timeout: timedelta
    ) -> None:
        self._address = address
        self._senders = senders
        self._timeout = timeout
        self._smtp: smtplib.SMTP | None = None

    def __call__(self, mail: Mail, *, now: datetime) -> Sending:
        """Send *mail*; see :class:`operations.ports.SendMail`."""
        try:
            message = make_message(mail, senders=self._senders, now=now)
            address = message["To"].addresses[0].addr_spec
            sender = message["From"].addresses[0].addr_spec
            content = message.as_bytes()
        except (ValueError, IndexError, MessageError) as error:
            return Sending(Fate.REFUSED, str(error))
        if not (address.isascii() and sender.isascii()):
            detail = f"{address!r} has letters that not every mail server accepts."
            return Sending(Fate.REFUSED, detail)

        fresh = self._smtp is None
        opened = self._begin(sender)
        if opened is not None and not fresh:
            # The server may have closed an idle connection; nothing has left yet.
            self._drop()
            opened = self._begin(sender)
        if opened is not None:
            self._drop()
            return opened
        assert self._smtp is not None  # _begin connected, or said why not
        return self._transmit(self._smtp, address, content)

    def _begin(self, sender: str) -> Sending | None:
        """Connect if necessary, and name the sender; None means success."""
        try:
            if self._smtp is None:
                self._smtp = self._connect()
            code, reply = self._smtp.mail(sender)
        except smtplib.SMTPResponseException as error:
            detail = _describe(error.smtp_code, error.smtp_error)
            return Sending(Fate.UNREACHABLE, detail, blames_server=True)
        except (OSError, smtplib.SMTPException) as error:
            detail = self._explain(error)
            return Sending(Fate.UNREACHABLE, detail, blames_server=True)
        if code >= 400:
            detail = _describe(code, reply)
            return Sending(Fate.UNREACHABLE, detail, blames_server=True)
        return None

    def _connect(self) -> smtplib.SMTP:
        host, seconds = self._address.hostname or "", self._timeout.total_seconds()
        if self._address.scheme == "smtps":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                host,
                self._address.port or _TLS_PORT,
                timeout=seconds,
                context=ssl.create_default_context(),
            )
        else:
            smtp = smtplib.SMTP(
                host, self._address.port or _SUBMISSION_PORT, timeout=seconds
            )
        try:
            smtp.ehlo_or_helo_if_needed()
            if self._address.scheme == "smtp" and smtp.has_extn("starttls"):
                # As mail servers do among themselves: encrypted, if not verified, is
                # better than plain. smtps:// verifies.
                unverified = ssl.create_default_context()
                unverified.check_hostname = False
                unverified.verify_mode = ssl.CERT_NONE
                smtp.starttls(context=unverified)
                smtp.ehlo()
            if self._address.username:
                smtp.login(
                    unquote(self._address.username),
                    unquote(self._address.password or ""),
                )
        except (OSError, smtplib.SMTPException):
            smtp.close()
            raise
        return smtp

    def _transmit(self, smtp: smtplib.SMTP, address: str, content: bytes) -> Sending:
        try:
            code, reply = smtp.rcpt(address)
            if code < 400:
                code, reply = smtp.docmd("DATA")
            if code != _READY_FOR_CONTENT:
                smtp.rset()
                return _refuse(code, reply)
        except (OSError, smtplib.SMTPException) as error:
            self._drop()
            return Sending(
                Fate.UNREACHABLE,
                self._explain(error),
                blames_server=_is_timeout(error),
            )
        try:
            # A line that is a dot alone would end the content (RFC 5321, 4.5.2).
            smtp.send(re.sub(rb"(?m)^\.", b"..", content))
            smtp.send(b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n")
            code, reply = smtp.getreply()
        except (OSError, smtplib.SMTPException) as error:
            self._drop()
            return Sending(
                Fate.UNCERTAIN,
                self._explain(error),
                blames_server=_is_timeout(error),
            )
        if code >= 400:
            return _refuse(code, reply)
        return Sending(Fate.SENT, _describe(code, reply))

    def _explain(self, error: Exception) -> str:
        where = f"{self._address.hostname}:{self._address.port or ''}".rstrip(":")
        return f"{where}: {str(error) or type(error).__name__}"

    def _drop(self) -> None:
        if self._smtp is not None:
            self._smtp.close()
            self._smtp = None

    def quit(self) -> None:
        """End the dialogue politely; it does not matter whether the server hears it."""
        if self._smtp is not None:
            with suppress(OSError, smtplib.SMTPException):
                self._smtp.quit()
            self._drop()


def _is_timeout(error: Exception) -> bool:
    """Tell whether the server hangs, as opposed to breaking off at this mail."""
    # smtplib wraps errors that occur while it reads in an error of its own
    return isinstance(error, TimeoutError) or isinstance(
        error.__context__, TimeoutError
    )


def _refuse(code: int, reply: bytes) -> Sending:
    permanent = code >= _FIRST_PERMANENT
    outcome = Fate.REFUSED if permanent else Fate.DEFERRED
    return Sending(outcome, _describe(code, reply))


def _describe(code: int, reply: bytes | str) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
    return " ".join(f"{code} {text}".split())
