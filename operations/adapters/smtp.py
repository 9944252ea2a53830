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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any
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
        address: ``smtp://user:password@host:port`` (TLS by STARTTLS, certificate
            checked), ``smtp://host:port`` (TLS if the server offers it),
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
        return SmtpMailer(parts, senders, timeout)
    if parts.scheme == "file":
        return FolderMailer(Path(unquote(parts.path)), senders)
    if "://" not in address and address:
        return FolderMailer(Path(address), senders)

    raise UsageError(
        f"{parts.scheme}://… is neither a mail server nor a folder. "
        "Write smtp://user:password@host:port, smtps://… or a folder."
    )


def name_mail_server(address: str) -> str:
    """Return the name of the mail server or folder for people, without credentials."""
    parts = urlsplit(address)
    if parts.scheme in {"smtp", "smtps"}:
        return f"mail server {_name_host(parts)}"
    return f"mail folder {unquote(parts.path)}"


def _name_host(parts: SplitResult) -> str:
    return f"{parts.hostname}:{parts.port or ''}".rstrip(":")


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


@dataclass(frozen=True, slots=True)
class FolderMailer:
    """
    Writes each mail as an ``.eml`` file, for development and tests.

    Args:
        folder: It is created with the first mail.
    """

    folder: Path
    senders: Senders

    @contextmanager
    def session(self) -> Iterator[SendMail]:
        """Return a session; a folder needs none."""
        yield self._send

    def _send(self, mail: Mail, *, now: datetime) -> Sending:
        try:
            content = make_message(mail, senders=self.senders, now=now).as_bytes()
        except (ValueError, MessageError) as error:
            return Sending(Fate.REFUSED, str(error))
        # The Message-ID makes the name unique; colons and the like are not for files.
        name = re.sub(r"[^A-Za-z0-9._-]", "_", mail.message_id)
        path = self.folder / f"{now:%Y%m%dT%H%M%S}-{name}.eml"
        draft = self.folder / f".{uuid4()}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # A program that watches the folder never sees half a mail.
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            detail = f"{self.folder}: {error.strerror}"
            return Sending(Fate.UNREACHABLE, detail, blames_server=True)
        return Sending(Fate.SENT, path.name)


@dataclass(frozen=True, slots=True)
class SmtpMailer:
    """
    Speaks SMTP; one connection for the mails of one step.

    Args:
        address: The parts of ``smtp(s)://user:password@host:port``.
        timeout: For each answer of the server.
    """

    address: SplitResult = field(repr=False)
    senders: Senders
    timeout: timedelta

    @contextmanager
    def session(self) -> Iterator[SendMail]:
        """Return a session that connects at its first mail and quits at the end."""
        session = _SmtpSession(self)
        try:
            yield session
        finally:
            session.quit()


class _InTime(smtplib.SMTP):
    """
    A dialogue in which each answer is complete within the timeout.

    smtplib gives it to each piece of one: a server that sends a byte now and then would
    keep whoever waits for ever, and in ``minutehand up`` no time limit ends that.
    """

    _ends_at: float

    def getreply(self) -> tuple[int, bytes]:
        """Return the next answer."""
        self._ends_at = time.monotonic() + self.timeout
        if self.file is None:
            self.file = BufferedReader(_Answers(self._receive))
        return super().getreply()

    def _receive(self, buffer: Any) -> int:
        assert self.sock is not None  # it has just been opened
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.sock.settimeout(left)
        try:
            return self.sock.recv_into(buffer)
        finally:
            self.sock.settimeout(self.timeout)


class _InTimeByTls(_InTime, smtplib.SMTP_SSL):
    """The same, with TLS from the first byte on."""


class _Answers(RawIOBase):
    """What a server says, as ``receive`` gets it into a buffer."""

    def __init__(self, receive: Callable[[Any], int]) -> None:
        self._receive = receive

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* as far as something is there; return how far."""
        return self._receive(buffer)

    def readable(self) -> bool:
        """Return that it is."""
        return True


class _SmtpSession:
    """An SMTP connection that is opened again if the server has closed it."""

    def __init__(self, mailer: SmtpMailer) -> None:
        self._mailer = mailer
        self._address = mailer.address
        self._smtp: smtplib.SMTP | None = None

    def __call__(self, mail: Mail, *, now: datetime) -> Sending:
        """Send *mail*; see :class:`operations.ports.SendMail`."""
        try:
            message = make_message(mail, senders=self._mailer.senders, now=now)
            address = message["To"].addresses[0].addr_spec
            sender = message["From"].addresses[0].addr_spec
            content = message.as_bytes()
        except (ValueError, IndexError, MessageError) as error:
            return Sending(Fate.REFUSED, str(error))
        if not (address.isascii() and sender.isascii()):
            detail = f"{address!r} has letters that not every mail server accepts."
            return Sending(Fate.REFUSED, detail)

        fresh = self._smtp is None
        wrong = self._begin(sender)
        if wrong is not None and not fresh:
            # The server may have closed an idle connection; nothing has left yet.
            self._drop()
            wrong = self._begin(sender)
        if wrong is not None:
            self._drop()
            return Sending(Fate.UNREACHABLE, wrong, blames_server=True)
        assert self._smtp is not None  # _begin connected, or said why not
        return self._transmit(self._smtp, address, content)

    def _begin(self, sender: str) -> str | None:
        """Connect if necessary, and name the sender; return what is wrong."""
        try:
            if self._smtp is None:
                self._smtp = self._connect()
            code, reply = self._smtp.mail(sender)
        except smtplib.SMTPResponseException as error:
            return _describe(error.smtp_code, error.smtp_error)
        except (OSError, smtplib.SMTPException) as error:
            return self._explain(error)
        return _describe(code, reply) if code >= 400 else None

    def _connect(self) -> smtplib.SMTP:
        host, port = self._address.hostname or "", self._address.port
        seconds = self._mailer.timeout.total_seconds()
        if self._address.scheme == "smtps":
            context = ssl.create_default_context()
            smtp: smtplib.SMTP = _InTimeByTls(
                host, port or _TLS_PORT, timeout=seconds, context=context
            )
        else:
            smtp = _InTime(host, port or _SUBMISSION_PORT, timeout=seconds)
        try:
            smtp.ehlo_or_helo_if_needed()
            user, is_plain = self._address.username, self._address.scheme == "smtp"
            if is_plain and (user or smtp.has_extn("starttls")):
                context = ssl.create_default_context()
                if not user:
                    # As mail servers do among themselves: encrypted, if not verified,
                    # is better than plain. A password is not for anybody who answers.
                    context.check_hostname = False
                    context.verify_mode = ssl.CERT_NONE
                smtp.starttls(context=context)
                smtp.ehlo()
            if user:
                smtp.login(unquote(user), unquote(self._address.password or ""))
        except (OSError, smtplib.SMTPException):
            smtp.close()
            raise
        return smtp

    def _transmit(self, smtp: smtplib.SMTP, address: str, content: bytes) -> Sending:
        fate = Fate.UNREACHABLE  # if it breaks before the content
        try:
            code, reply = smtp.rcpt(address)
            if code < 400:
                code, reply = smtp.docmd("DATA")
            if code != _READY_FOR_CONTENT:
                smtp.rset()
                return _refuse(code, reply)
            fate = Fate.UNCERTAIN
            # A line that is a dot alone would end the content (RFC 5321, 4.5.2).
            smtp.send(re.sub(rb"(?m)^\.", b"..", content))
            smtp.send(b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n")
            code, reply = smtp.getreply()
        except (OSError, smtplib.SMTPException) as error:
            self._drop()
            # Whether it hangs, as opposed to breaking off at this mail; smtplib wraps
            # errors that occur while it reads in an error of its own.
            causes = error, error.__context__
            hangs = any(isinstance(each, TimeoutError) for each in causes)
            return Sending(fate, self._explain(error), blames_server=hangs)
        if code >= 400:
            return _refuse(code, reply)
        return Sending(Fate.SENT, _describe(code, reply))

    def _explain(self, error: Exception) -> str:
        return f"{_name_host(self._address)}: {str(error) or type(error).__name__}"

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


def _refuse(code: int, reply: bytes) -> Sending:
    permanent = code >= _FIRST_PERMANENT
    outcome = Fate.REFUSED if permanent else Fate.DEFERRED
    return Sending(outcome, _describe(code, reply))


def _describe(code: int, reply: bytes | str) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
    return " ".join(f"{code} {text}".split())
