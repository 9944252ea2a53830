"""Mails to a real SMTP server, to one that dies, and to a folder."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from io import BufferedRWPair
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from models.errors import UsageError
from operations.adapters.smtp import make_mailer
from operations.mail.message import Attachment, Fate, Letterhead, Mail, Senders, Sending
from tests.integration.test_guarded_http import (
    AUTHORITY,
    CERTIFICATES,
    run_dripping_server,
)
from tests.mail_server import MailServer
from tests.scheduling import MINUTE
from tests.servers import PATIENCE_S, find_free_port

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
SENDER = "Minutehand <reports@example.org>"


def make_mail(address: str = "ann@example.org", **changes: object) -> Mail:
    values: dict[str, object] = {
        "message_id": "1@minutehand",
        "address": address,
        "name": "Ann Å",
        "subject": "Héllo",
        "text": "line\n.\n.dot\nend",
        "html": "<p>é</p>",
        **changes,
    }
    return Mail(**values)  # type: ignore[arg-type]  # the values above are of its types


def send(
    url: str, mail: Mail | None = None, *, sender: str | Senders = SENDER, **how: Any
) -> Sending:
    """Send a mail in a session of its own."""
    with make_mailer(url, sender=sender, **how).session() as send_it:
        return send_it(mail or make_mail(), now=NOW)


def test_mail_arrives_whole(smtp_server: MailServer):
    """
    Headers, both parts, lines of dots and the attachment arrive as they were. Nobody is
    told to unsubscribe where nobody listens.
    """
    pdf = Attachment("a.pdf", "pdf", b"%PDF-\r\n.\r\n\x00\xff")

    sending = send(smtp_server.url, make_mail(attachments=(pdf,)))

    assert Fate.SENT is sending.outcome
    message = smtp_server.messages[0]
    assert "Héllo" == message["Subject"]
    assert "Ann Å <ann@example.org>" == message["To"]
    assert "<1@minutehand>" == message["Message-ID"]
    assert "Mon, 23 Nov 2026 06:00:00 +0000" == message["Date"]
    assert (SENDER, None, None) == tuple(
        message[name] for name in ("From", "Reply-To", "List-Unsubscribe")
    )
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert "line\n.\n.dot\nend\n" == text.get_content().replace("\r\n", "\n")
    assert "<p>é</p>" == html.get_content().strip()
    assert [pdf.content] == [part.get_content() for part in message.iter_attachments()]


def test_server_that_is_away_is_unreachable():
    """A refused connection means that nothing left."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        url = f"smtp://127.0.0.1:{taken.getsockname()[1]}"
        with make_mailer(url, sender=SENDER).session() as send:
            sending = send(make_mail(), now=NOW)

    assert Fate.UNREACHABLE is sending.outcome


def test_app_chooses_name_reply_address_and_unsubscribing(smtp_server: MailServer):
    """The address of the sender stays that of the installation."""
    stop = f"https://example.org/stop?{'x' * 400}"
    letterhead = Letterhead("Société « A »", "", "help@example.org", stop)

    send(smtp_server.url, make_mail(letterhead=letterhead), sender=Senders(SENDER))

    (message,) = smtp_server.messages
    assert "Société « A » <reports@example.org>" == message["From"]
    assert "help@example.org" == message["Reply-To"]
    assert f"<{stop}>" == message["List-Unsubscribe"]
    assert "auto-generated" == message["Auto-Submitted"]


@pytest.mark.parametrize(
    ("address", "hosts", "sender"),
    [
        ("r@Shop.example", {"shop.example"}, "r@Shop.example"),
        ("r@shop.example", set(), "reports@example.org"),
        ("r@evil.shop.example", {"shop.example"}, "reports@example.org"),
        ("r@evil.example@shop.example", {"shop.example"}, None),
        (
            "r@shop.example>, x@y.example\r\nBcc: z@y",
            {"shop.example"},
            "reports@example.org",
        ),
    ],
)
def test_sender_is_the_installation_unless_the_operator_allows_it(
    smtp_server: MailServer, address: str, hosts: set[str], sender: str | None
):
    """In the From header and on the envelope; what is no address sends nothing."""
    senders = Senders(SENDER, frozenset(hosts))

    mail = make_mail(letterhead=Letterhead(address=address))

    sending = send(smtp_server.url, mail, sender=senders)

    assert (Fate.REFUSED if sender is None else Fate.SENT) is sending.outcome
    seen = [m["From"].addresses[0].addr_spec for m in smtp_server.messages]
    assert ([sender] if sender else []) == seen == smtp_server.senders


EVIL = "x@x.org\r\nBcc: all@x.org"


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": EVIL, "name": EVIL},
        *(
            {"letterhead": Letterhead(**{field: EVIL})}
            for field in ("name", "reply_to", "unsubscribe")
        ),
    ],
    ids=["mail", "name", "reply_to", "unsubscribe"],
)
def test_nothing_can_begin_a_header(smtp_server: MailServer, fields: dict[str, Any]):
    """Even if it passed the door: the mail is refused, or the break is gone."""
    send(smtp_server.url, make_mail(**fields))

    assert all(message["Bcc"] is None for message in smtp_server.messages)
    assert all(["ann@example.org"] == to for to in smtp_server.envelopes)
    assert "subject" not in fields or smtp_server.messages


def test_server_that_closes_after_each_refusal_serves_the_next():
    """A connection that is gone is opened again for the next recipient."""
    script: dict[str, str | None] = {"RCPT": None}
    with run_scripted_server(script) as url:
        mailer = make_mailer(url, sender=SENDER, timeout=MINUTE)
        with mailer.session() as send_it:
            first = send_it(make_mail("bad@example.org"), now=NOW)
            script.clear()
            second = send_it(make_mail("ann@example.org"), now=NOW)

    assert (Fate.UNREACHABLE, False) == (first.outcome, first.blames_server)
    assert Fate.SENT is second.outcome


@contextmanager
def run_asking_server(*, by_tls: bool) -> Iterator[tuple[int, list[bytes]]]:
    """Run a server of hooks.example; give its port, and which passwords it was told."""
    told: list[bytes] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / "hooks.example.pem")

    def take(*given: object) -> AuthResult:
        login = given[-1]
        assert isinstance(login, LoginPassword)
        told.append(login.password)
        return AuthResult(success=True)

    server = Controller(
        MailServer(),
        *("127.0.0.1", find_free_port()),
        ready_timeout=PATIENCE_S,
        tls_context=context if by_tls else None,
        authenticator=take,
        auth_require_tls=False,
    )
    server.start()
    try:
        yield server.port, told
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("user", "by_tls", "is_trusted", "fate"),
    [
        ("ann:secret@", True, True, Fate.SENT),
        ("ann:secret@", True, False, Fate.UNREACHABLE),
        ("ann:secret@", False, True, Fate.UNREACHABLE),
        ("", True, False, Fate.SENT),
    ],
)
def test_password_is_told_to_the_server_alone_that_is_meant(
    monkeypatch: pytest.MonkeyPatch,
    user: str,
    fate: Fate,
    *,
    by_tls: bool,
    is_trusted: bool,
):
    """Not in plain text, nor to whoever answers in its place; mails are less secret."""
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    find = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *how: find("127.0.0.1", *how))

    with run_asking_server(by_tls=by_tls) as (port, told):
        sending = send(f"smtp://{user}hooks.example:{port}")

    assert fate is sending.outcome, sending.detail
    assert ([b"secret"] if user and fate is Fate.SENT else []) == told


@contextmanager
def run_scripted_server(script: dict[str, str | None]) -> Iterator[str]:
    """
    Run an SMTP server that answers by *script* and gives its address.

    Args:
        script: By the first word of a command, or "." for the end of the content;
            None closes the connection. What is not there is answered with 250.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _address = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as lines:
                _talk(lines)

    def _talk(lines: BufferedRWPair) -> None:
        lines.write(b"220 hello\r\n")
        lines.flush()
        in_content = False
        while line := lines.readline():
            if in_content and line != b".\r\n":
                continue
            word = line.split()[0].decode().upper() if not in_content else "."
            in_content = word == "DATA" and script.get(word, "354") == "354"
            answer = script.get(word, "354" if word == "DATA" else "250")
            if answer is None:
                return
            lines.write(f"{answer} ok\r\n".encode())
            lines.flush()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"smtp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=5)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ({}, Fate.SENT),
        ({"EHLO": None, "HELO": None}, Fate.UNREACHABLE),
        ({"MAIL": "451"}, Fate.UNREACHABLE),
        ({"MAIL": None}, Fate.UNREACHABLE),
        ({"RCPT": "452"}, Fate.DEFERRED),
        ({"RCPT": "550"}, Fate.REFUSED),
        ({"RCPT": None}, Fate.UNREACHABLE),
        ({"DATA": "451"}, Fate.DEFERRED),
        ({"DATA": "554"}, Fate.REFUSED),
        ({"DATA": None}, Fate.UNREACHABLE),
        ({".": "451"}, Fate.DEFERRED),
        ({".": "554"}, Fate.REFUSED),
        ({".": None}, Fate.UNCERTAIN),
    ],
)
def test_outcome_depends_on_where_it_breaks(
    script: dict[str, str | None], outcome: Fate
):
    """Before the content nothing has left; after it nobody knows."""
    with run_scripted_server(script) as url:
        sending = send(url, timeout=MINUTE)

    assert outcome is sending.outcome


def test_server_that_drips_is_left():
    """Each byte comes in time, and the answer never does."""
    with run_dripping_server(b"220-") as (place, is_left):
        mailer = make_mailer(
            f"smtp://{place}", sender=SENDER, timeout=timedelta(seconds=1)
        )
        with mailer.session() as send:
            sending = send(make_mail(), now=NOW)

        assert is_left()
    assert (Fate.UNREACHABLE, True) == (sending.outcome, sending.blames_server)
    assert "timed out" in sending.detail


def test_folder_gets_one_whole_file_a_mail(tmp_path: Path):
    """Mails land as .eml files, and nothing else is left in the folder."""
    folder = tmp_path / "mails"

    for number in (1, 2):
        send(str(folder), make_mail(message_id=f"{number}@minutehand"))

    names = [path.name for path in sorted(folder.iterdir())]
    assert [f"20261123T060000-{n}_minutehand.eml" for n in (1, 2)] == names
    content = (folder / names[0]).read_bytes()
    message = message_from_bytes(content, policy=policy.default)
    assert "Ann Å <ann@example.org>" == message["To"]


def test_folder_that_cannot_be_written_is_unreachable(tmp_path: Path):
    """A folder that is a file may be mended: nothing left."""
    (tmp_path / "mails").touch()

    sending = send(f"file://{tmp_path}/mails")

    assert Fate.UNREACHABLE is sending.outcome


def test_mailer_shows_no_password():
    """Whatever is made of it by who writes down what a step was given."""
    mailer = make_mailer("smtp://ann:hunter2@mail.example:25", sender=SENDER)

    assert "hunter2" not in repr(mailer)


@pytest.mark.parametrize("address", ["", "http://x", "smtp://"])
def test_what_is_neither_server_nor_folder_is_refused(address: str):
    """A wrong setting stops the start."""
    with pytest.raises(UsageError, match="Write smtp://"):
        make_mailer(address, sender=SENDER)
