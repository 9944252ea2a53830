"""A mail server that breaks in four ways, kills who sends, and can be mended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto

import psutil
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.chaos.servers import run_blackhole
from tests.mail_server import MailServer


class Mood(Enum):
    """How it serves."""

    WELL = auto()
    REFUSES = auto()
    HANGS = auto()
    DEFERS = auto()
    DROPS = auto()


@dataclass
class MoodyMailServer(MailServer):
    """
    Keeps what it is sent, unless it is told to break.

    Args:
        deadly: So many senders are still to be killed, each in the middle of a mail.
        deadly_every: Of so many mails one costs its sender its life. None: none.
        killed: When each was, aware UTC.
        dropped: Mails in whose middle it broke off.
    """

    deadly: int = 0
    deadly_every: int | None = None
    killed: list[datetime] = field(default_factory=list)
    dropped: int = 0
    mood: Mood = Mood.WELL
    _stack: ExitStack = field(default_factory=ExitStack)

    def become(self, mood: Mood) -> None:
        """Serve like that from now on; whoever is connected may be cut off."""
        listens = {Mood.WELL, Mood.DEFERS, Mood.DROPS}
        if not (self.mood in listens and mood in listens):
            self._stack.close()
            if mood in listens:
                self._stack.enter_context(self.listening())
            elif mood is Mood.HANGS:
                self._stack.enter_context(run_blackhole(self.port))
        self.mood = mood

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve, in whichever mood, for the length of the block."""
        with self._stack:
            self._stack.enter_context(self.listening())
            yield

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's name and signature
        self,
        server: SMTP,  # noqa: ARG002
        session: Session,  # noqa: ARG002
        envelope: Envelope,
        address: str,
        mail_options: list[str],
    ) -> str:
        """Accept a sender, or nobody."""
        if self.mood is Mood.DEFERS:
            return "451 4.3.2 not now"
        envelope.mail_from = address
        envelope.mail_options.extend(mail_options)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Keep a message; in the worst moment nobody hears whether it did."""
        if self.mood is Mood.DROPS:
            self.dropped += 1
            # Servers break off before and after they have kept a mail.
            if self.dropped % 2:
                await super().handle_DATA(server, session, envelope)
            assert isinstance(server.transport, asyncio.Transport)  # it is connected
            server.transport.abort()
            return "451 nobody reads this"
        answer = await super().handle_DATA(server, session, envelope)
        every = self.deadly_every
        is_chosen = every is not None and len(self.messages) % every == 0
        if self.deadly > 0 or is_chosen:
            assert session.peer is not None  # it is connected
            if _kill_client(int(session.peer[1])):
                self.deadly = max(0, self.deadly - 1)
                self.killed.append(datetime.now(UTC))
        await asyncio.sleep(0.02)
        return answer


def _kill_client(port: int) -> bool:
    """Kill the process whose end of a connection is *port*; tell whether it died."""
    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == port and connection.pid:
            os.kill(connection.pid, signal.SIGKILL)
            return True
    return False


@contextmanager
def run_moody_mail_server() -> Iterator[MoodyMailServer]:
    """Run one on a free port, in a thread."""
    mails = MoodyMailServer()
    with mails.running():
        yield mails
