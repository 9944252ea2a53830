"""An SMTP server for tests: keeps what it is sent, delivers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.servers import PATIENCE_S, find_free_port


@dataclass
class MailServer:
    """
    An SMTP server that keeps what it is sent.

    Args:
        url: For ``MINUTEHAND_SMTP_URL``.
        messages: What arrived, oldest first; ``To`` as written by the sender.
        envelopes: Recipients of each message as the server was told them.
        senders: The sender of each, as the server was told.
        refused: Recipients answered with 550, as unknown users are.
        takes_s: How many seconds it takes with each message.
    """

    url: str = field(default_factory=lambda: f"smtp://127.0.0.1:{find_free_port()}")
    messages: list[EmailMessage] = field(default_factory=list)
    envelopes: list[list[str]] = field(default_factory=list)
    senders: list[str | None] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    takes_s: float = 0.0

    @property
    def port(self) -> int:
        """That of its URL."""
        return int(self.url.rpartition(":")[2])

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen, in a thread."""
        controller = Controller(
            self, hostname="127.0.0.1", port=self.port, ready_timeout=PATIENCE_S
        )
        controller.start()
        try:
            yield
        finally:
            controller.stop()

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name and signature
        self,
        server: SMTP,  # noqa: ARG002
        session: Session,  # noqa: ARG002
        envelope: Envelope,
        address: str,
        rcpt_options: list[str],  # noqa: ARG002
    ) -> str:
        """Accept a recipient, unless a test wants it refused."""
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self,
        server: SMTP,  # noqa: ARG002
        session: Session,  # noqa: ARG002
        envelope: Envelope,
    ) -> str:
        """Keep a message."""
        await asyncio.sleep(self.takes_s)
        content = envelope.content
        assert isinstance(content, bytes)  # decode_data is off by default
        self.messages.append(message_from_bytes(content, policy=policy.default))
        self.envelopes.append(list(envelope.rcpt_tos))
        self.senders.append(envelope.mail_from)
        return "250 OK"


@contextmanager
def run_mail_server() -> Iterator[MailServer]:
    """Run a mail server for the length of the block."""
    mail_server = MailServer()
    with mail_server.listening():
        yield mail_server
