"""The pages of small apps, mails and events: what they show, and to whom."""

from __future__ import annotations

import re
from collections import Counter

import sqlalchemy as sa

from models.database.tables import (
    deliveries,
    domains,
    events,
    mail_contents,
    small_apps,
    users,
)
from tests.database import execute, fetch_rows
from tests.integration.api.prepared import Prepared
from tests.integration.web.conftest import Browser, Person, enter_as

STEP = "send_email"


def _paths(shop: Prepared) -> list[str]:
    """Return every page of a small app that changes nothing."""
    run, event = shop.ids["operation_id"], shop.ids["event_id"]
    app = shop.app
    return [
        f"/apps/{app}",
        f"/apps/{app}/users?group=manager&text=a",
        f"/apps/{app}/pause",
        f"/apps/{app}/resume",
        f"/apps/{app}/refresh",
        f"/apps/{app}/publish?domain=sales",
        f"/apps/{app}/rollback?domain=sales",
        f"/apps/{app}/data/sales",
        f"/mails?app={app}&state=failed&day=2026-01-05",
        f"/mails/{run}",
        f"/mails/{run}?who=out",
        f"/mails/{run}/{STEP}/ada",
        f"/mails/html/{run}/{STEP}/ada",
        f"/mails/resend?app={app}&state=failed",
        f"/mails/confirm?app={app}",
        f"/mails/test?app={app}",
        f"/events?app={app}&name=app.bought&user=ada",
        f"/events/send?app={app}",
        f"/events/{app}/{event}",
        f"/events/{app}/{event}/replay",
    ]


def test_pages_show_what_there_is(admin: Person):
    """Each of them, below the size that a page may have."""
    for path in ("/apps", "/mails", "/events", *_paths(admin.shop)):
        text = admin.look(path)
        assert len(text.encode()) < 200_000
    assert "2 failed" not in admin.look("/apps")  # it was long ago
    assert f"report {admin.shop.mark}" in admin.look("/apps/shop")
    assert "version 3 is staged, version 2 is live" in admin.look(
        "/apps/shop/data/sales"
    )


def test_nonsense_in_a_query_is_told_and_left_out(admin: Person):
    """The page is shown all the same."""
    text = admin.look("/mails?state=lost&day=yesterday&operation=1&cursor=x&color=red")

    for told in (
        "no state 'lost'",
        "day: 'yesterday'",
        "operation: '1'",
        "place in a list",
    ):
        assert told in text
    assert "is longer than" in admin.look(f"/events?name={'x' * 201}")


def test_cursor_of_another_list_leads_to_the_beginning(admin: Person):
    """Which is told, once, as anything that is asked for more often than once."""
    text = admin.look(f"/actions?cursor=x&text={'x' * 201}")

    assert 1 == text.count("this is its beginning")
    assert 1 == text.count("is longer than")
    assert "From the beginning" not in text


def test_empty_pages_say_how_to_begin(browse: Browser, engine: sa.Engine):
    """With the address of the installation itself."""
    browser = browse(web_url="https://minutehand.example.org")
    execute(engine, sa.insert(small_apps).values(uid="new", name="New"))
    person = Person(enter_as(browser, engine), Prepared("new", "Qnewq"))

    assert "Send the first one" in person.look("/events")
    data = person.look("/apps/new")
    assert 'href="/apps/new/parts/domains"' in data
    assert 1 == person.look("/mails").count("No mail yet")
    assert "https://minutehand.example.org/api/v1/apps/shop/events" in person.look(
        "/events"
    )


def test_titles_of_domains_and_sender_of_mails_are_shown(
    admin: Person, engine: sa.Engine
):
    """What a tenant writes is text; a sender that is not allowed is told."""
    address = "reports@shop.example"
    mail = {"from_name": "<i>Shop", "from_address": address, "reply_to": "a@b.example"}
    execute(engine, sa.update(small_apps).values(mail=mail))
    execute(engine, sa.update(domains).values(labels={"title": "<i>Sold"}))

    page = admin.client.get("/apps/shop").text

    assert "&lt;i&gt;Shop &lt;reports@shop.example&gt;" in page
    assert "MINUTEHAND_MAIL_SENDER_HOSTS" in page
    assert "a@b.example" in page
    assert "<small>&lt;i&gt;Sold</small>" in page


def test_app_is_paused_and_resumed(admin: Person, engine: sa.Engine):
    """With the count first; what is wrong is told beside the field."""
    asked = admin.look("/apps/shop/pause")
    wrong = admin.send("/apps/shop/pause", note="moving", until="26 Oct")
    paused = admin.do("/apps/shop/pause", note="moving")
    resumed = admin.do("/apps/shop/resume")

    assert "Pause 7 actions" in asked
    assert 422 == wrong.status_code
    assert 'value="26 Oct"' in wrong.text
    assert 'value="moving"' in wrong.text
    assert "nothing was saved" in wrong.text
    assert "Paused shop: " in paused
    assert 'action="/apps/shop/resume"' in paused  # undo
    assert "Paused by ada" in paused
    assert "Resumed shop: " in resumed
    assert {(None,)} == {*fetch_rows(engine, sa.select(small_apps.c.paused_at))}


def test_versions_that_were_seen_are_published(admin: Person, engine: sa.Engine):
    """And rolled back; if others are staged meanwhile, nothing moves."""
    path = "/apps/shop/publish?domain=sales"
    page = admin.look(path)
    of_shop = sa.update(domains).where(domains.c.app == "shop")
    execute(engine, of_shop.values(staged_version=1))
    stale = admin.client.post("/apps/shop/publish", data={"version": "sales=3"})
    published = admin.do(path)
    rolled = admin.do("/apps/shop/rollback?domain=sales")

    assert "sales: version 2 → version 3 (4 rows, +1)" in page
    assert 409 == stale.status_code
    assert "version 3 was expected" in stale.text
    assert "Published: sales (version 1)." in published
    assert "Rolled back: sales (version 2)." in rolled


def test_refresh_is_an_operation(admin: Person):
    """The page leads to it."""
    answer = admin.send("/apps/shop/refresh?domain=sales", force="1")

    assert 303 == answer.status_code
    assert answer.headers["location"].startswith("/operations/")


def test_failed_mails_are_sent_again_with_their_count(admin: Person):
    """If there are more than were told, nothing is sent."""
    path = f"/mails/resend?operation={admin.shop.ids['operation_id']}&state=failed"
    asked = admin.look(path)
    wrong = admin.send(path, expected_count="2")
    done = admin.do(path)

    assert "Send 1 mail again?" in asked
    assert "ben · shop" in asked
    assert 409 == wrong.status_code
    assert "2 were expected" in wrong.text
    assert "1 mail will be sent again." in done


def test_uncertain_mails_are_counted_as_sent(admin: Person, engine: sa.Engine):
    """Those of the filters alone."""
    run = admin.shop.ids["operation_id"]
    done = admin.do(f"/mails/confirm?operation={run}&recipient=ada")

    assert "1 mail counted as sent." in done
    states = sa.select(deliveries.c.state).where(deliveries.c.app == "shop")
    assert {"failed": 3, "uncertain": 2, "sent": 4} == Counter(
        fetch_rows(engine, states).scalars()
    )


def test_template_is_mailed_to_be_looked_at(admin: Person):
    """The page shows what it said; a stranger gets nothing."""
    sent = admin.send("/mails/test?app=shop", app="shop", template="report", to="ada")
    refused = admin.send(
        "/mails/test?app=shop", app="shop", template="report", to="eve@evil.example"
    )

    assert (200, True) == (sent.status_code, "[Test] Report Qshopq" in sent.text)
    assert 422 == refused.status_code
    assert "is not a user of" in refused.text
    assert 'value="eve@evil.example"' in refused.text


def test_event_is_sent_once_and_replayed(admin: Person, engine: sa.Engine):
    """The form has a key, so that an impatient hand sends one event."""
    form = admin.look("/events/send?app=shop")
    wrong = admin.send("/events/send?app=shop", event="bought", user="nobody")
    fields = {"app": "shop", "event": "app.bought", "user": "ada", "key": "1"}
    first = admin.client.post("/events/send", data=fields)
    again = admin.client.post("/events/send", data=fields)
    page = admin.look(first.headers["location"])
    replayed = admin.do(f"{first.headers['location']}/replay")

    assert 'value="page-' in form
    assert 422 == wrong.status_code
    assert "'bought' is not an event" in wrong.text.replace("&#39;", "'")
    assert first.headers["location"] == again.headers["location"]
    assert "event Qshopq" in page
    assert "It replays" in replayed
    count = sa.select(sa.func.count()).select_from(events).where(events.c.app == "shop")
    assert 3 == fetch_rows(engine, count).scalar_one()


def test_facts_about_users_are_not_replayed(admin: Person, engine: sa.Engine):
    """The page says why, and what to do instead."""
    execute(engine, sa.update(events).values(name="instance.user.created"))
    path = f"/events/shop/{admin.shop.ids['event_id']}"

    assert "It cannot be replayed" in admin.look(f"{path}/replay")
    assert "Run an action for the user instead" in admin.look(path)
    sent = admin.client.post(f"{path}/replay", data={"key": "1"})
    assert 409 == sent.status_code


EVIL = """<script>alert(1)</script><img src=x onerror=alert(1)>"""


def test_names_of_tenants_are_text(admin: Person, engine: sa.Engine):
    """Whatever they are, wherever they are shown."""
    run = admin.shop.ids["operation_id"]
    for written in (
        sa.update(small_apps).values(name=EVIL),
        sa.update(users).values(name=EVIL),
        sa.update(deliveries).values(error=EVIL),
        sa.update(mail_contents).values(subject=EVIL, text=EVIL, html=EVIL),
        sa.update(events).values(source=EVIL, source_id=EVIL),
    ):
        execute(engine, written)

    for path in ("/apps", "/mails", "/events", *_paths(admin.shop)):
        answer = admin.client.get(path)
        if path.startswith("/mails/html/"):
            continue
        assert "<script>alert" not in answer.text, path
        assert "<img src=x" not in answer.text, path
    assert "&lt;script&gt;" in admin.client.get(f"/mails/{run}/{STEP}/ada").text


def test_html_of_a_mail_runs_and_loads_nothing(admin: Person, engine: sa.Engine):
    """It has a policy of its own, and only a frame of ours gets it."""
    run = admin.shop.ids["operation_id"]
    link = '<LINK rel=preconnect href="//evil.example">'
    html = f"<p>Hi</p>{link}<meta http-equiv=refresh>"
    execute(engine, sa.update(mail_contents).values(html=html))
    path = f"/mails/html/{run}/{STEP}/ada"

    framed = admin.client.get(path, headers={"Sec-Fetch-Dest": "iframe"})
    alone = admin.client.get(path, headers={"Sec-Fetch-Dest": "document"})

    policy = framed.headers["content-security-policy"]
    assert {
        *("sandbox", "default-src 'none'", "form-action 'none'"),
        "frame-ancestors 'self'",
    } <= {each.strip() for each in policy.split(";")}
    assert "script-src" not in policy
    assert "<p>Hi</p><x-LINK" in framed.text
    assert "<meta" not in framed.text
    assert (303, f"/mails/{run}/{STEP}/ada") == (
        alone.status_code,
        alone.headers["location"],
    )
    page = admin.look(f"/mails/{run}/{STEP}/ada")
    assert '<iframe class="mail-frame" sandbox referrerpolicy="no-referrer"' in page


def test_mails_are_told_by_the_clock_of_their_rule(admin: Person):
    """As operations are: in Paris, not in the zone of the installation."""
    run = admin.shop.ids["operation_id"]

    for path in ("/mails", f"/mails/{run}", f"/mails/{run}/{STEP}/ada"):
        assert re.search(r"\d\d:\d\d(:\d\d)? \+0[12]:00", admin.look(path)), path
