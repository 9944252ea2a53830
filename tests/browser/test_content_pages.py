"""Small apps, mails and events in a browser: looked at, and used."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa
from playwright.sync_api import expect

from models.database.engine import reading
from models.database.tables import (
    deliveries,
    domains,
    events,
    mail_contents,
    operations,
)
from tests.browser.looking import Looker
from tests.database import execute
from tests.seeded.sites import Site

#: What a mail may try; each would be seen from outside of its frame.
EVIL = """
<meta http-equiv="refresh" content="0;url=/sign-in">
<link rel="stylesheet" href="/static/style.css"><base href="https://evil.example/">
<p id="mine">Good morning</p>
<script>parent.document.title = "evil"</script>
<img src="/static/favicon.svg" onerror="parent.document.title = 'evil'">
<svg onload="parent.document.title = 'evil'"></svg>
<form action="/pause" method="post" target="_top"><button>Send</button></form>
<a id="out" href="/apps" target="_top">open</a>
"""


class Named:
    """What a seeded installation has, as pages are called after it."""

    def __init__(self, site: Site) -> None:
        """Look for a mail, an event and a domain that is staged and not live."""
        with reading(site.engine) as connection:
            mail = connection.execute(
                sa.select(deliveries)
                .join(mail_contents, mail_contents.c.digest == deliveries.c.content)
                .where(mail_contents.c.html.is_not(None), deliveries.c.state == "sent")
                .limit(1)
            ).one()
            event = connection.execute(
                sa.select(events).where(events.c.name.like("app.%")).limit(1)
            ).one()
            # Nothing is published while another heavy operation is under way.
            busy = sa.select(operations.c.app).where(
                operations.c.queue == "heavy",
                operations.c.state.in_(["queued", "running"]),
            )
            domain = connection.execute(
                sa.select(domains)
                .where(
                    domains.c.staged_version.is_distinct_from(domains.c.live_version),
                    domains.c.previous_version.is_not(None),
                    domains.c.app.not_in(busy),
                )
                .limit(1)
            ).one()
        self.operation: UUID = mail.operation_id
        self.content: str = mail.content
        self.app = f"/apps/{domain.app}"
        self.domain = f"/apps/{domain.app}/data/{domain.name}"
        self.mailing = f"/mails/{mail.operation_id}"
        self.mail = f"/mails/{mail.operation_id}/{mail.step}/{mail.recipient}"
        self.event = f"/events/{event.app}/{event.id}"


def test_mail_can_neither_run_nor_load_nor_lead_away(looker: Looker, own_site: Site):
    """Whoever wrote it, in its frame or opened alone."""
    named = Named(own_site)
    execute(
        own_site.engine,
        sa.update(mail_contents)
        .where(mail_contents.c.digest == named.content)
        .values(html=EVIL),
    )
    # What it tried is what the browser complains of, and nothing else.
    looker.watch.provoked = (
        "csp: GET",
        "Blocked script",
        "Refused",
        "violates",
        "Unsafe attempt",
        "Blocked form",
    )
    page = looker.open(own_site, named.mail)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    frame = page.frame_locator("iframe.mail-frame")

    expect(frame.locator("#mine")).to_have_text("Good morning")
    assert "evil" not in page.title()
    with page.expect_console_message(lambda told: "Unsafe attempt" in told.text):
        frame.locator("#out").click()
    with page.expect_console_message(lambda told: "Blocked form" in told.text):
        frame.get_by_role("button", name="Send").click()
    assert page.url == f"{own_site.url}{named.mail}"
    assert not [each for each in asked if "evil" in each or each.endswith("/pause")]
