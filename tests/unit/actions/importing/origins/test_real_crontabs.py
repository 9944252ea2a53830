"""Crontabs as people have them: each line is told rightly, and how it was read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actions.importing.origins.crontab import CRONTAB, read_crontab
from actions.importing.origins.imported import import_each
from tests.unit.actions.importing.documents import DEFAULTS, get_step

#: A crontab; how it was read; for each line its verdict, its user, and words of a note.
FILES = {
    "of the system": (
        """
SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin
# .---------------- minute (0 - 59)
23 *  * * *  root  cd / && run-parts --report /etc/cron.hourly
41 6  * * *  root  test -x /usr/sbin/anacron || run-parts /etc/cron.daily
52 6  * * 7  root  test -x /usr/sbin/anacron || run-parts /etc/cron.weekly
""",
        "a system file",
        [("exact", "root", ""), ("exact", "root", ""), ("exact", "root", "")],
    ),
    "of a package, for its own user": (
        (
            "30 4 * * *   stats   /usr/lib/stats/rotate --quiet\n"
            "*/5 * * * *  stats   if [ -d /run/stats ]; then /usr/lib/stats/poll; fi\n"
        ),
        "one user",
        [("differs", None, "--system"), ("differs", None, "--system")],
    ),
    "of a package, before paths": (
        "09,39 * * * * sessions /usr/lib/sessions/clean\n",
        "a system file",
        [("differs", "sessions", "--personal")],
    ),
    "of a web server": (
        (
            "*/5 * * * *  www-data  php -f /srv/cloud/cron.php\n"
            "15 3 * * sun www-data  /srv/cloud/occ files:scan --all\n"
        ),
        "a system file",
        [("exact", "www-data", ""), ("exact", "www-data", "")],
    ),
    "of a PHP application": (
        'MAILTO=""\n* * * * * php /srv/shop/artisan schedule:run >> /dev/null 2>&1\n',
        "one user",
        [("exact", None, "")],
    ),
    "of a person, with dates in names": (
        (
            "MAILTO=ada@example.org\n"
            "0 2 * * * pg_dump shop | gzip > /srv/dump/shop-$(date +\\%F).sql.gz\n"
            "@weekly find /srv/dump -mtime +30 -delete\n"
            "@reboot /home/ada/bin/tunnel\n"
        ),
        "one user",
        [("exact", None, ""), ("exact", None, ""), ("cannot_be", None, "starts")],
    ),
    "of cronie, for a zone": (
        "CRON_TZ=America/New_York\n30 16 * * mon-fri /opt/desk/close-of-day\n",
        "one user",
        [("differs", None, "as cronie does: CRON_TZ moves the rule")],
    ),
    "with what neither cron has": (
        (
            "0 18 L * *      /opt/books/close\n"
            "0 9  * * MON#1  /opt/books/meet\n"
            "0 9  1-7 * MON  /opt/books/meet\n"
            "5/20 * * * *    /opt/books/poll\n"
        ),
        "one user",
        [
            ("differs", None, "refuse 'L'"),
            ("differs", None, "refuse 'MON#1'"),
            ("exact", None, "write '0 9 * * 1#1'"),
            ("differs", None, "refuse '5/20'"),
        ],
    ),
    "of cronie, spread": (
        "RANDOM_DELAY=30\n-0 4 * * * /usr/bin/mirror\n0~59 5 * * * /usr/bin/mirror\n",
        "one user",
        [("differs", None, "RANDOM_DELAY"), ("cannot_be", None, "jitter")],
    ),
    "with mistakes": (
        "0 25 * * * /bin/late\n0 7 31 2 * /bin/never\n*/90 * * * * /bin/often\n",
        "one user",
        [
            ("cannot_be", None, "hour 25"),
            ("cannot_be", None, "never due"),
            ("cannot_be", None, "step 90"),
        ],
    ),
}


@pytest.mark.parametrize(("text", "reading", "expected"), FILES.values(), ids=FILES)
def test_lines_are_told_rightly(
    text: str, reading: str, expected: list[tuple[str, str | None, str]]
):
    """The verdict of each line, whose command it is, and what there is to say."""
    lines, notes = read_crontab(text)
    found = import_each(lines, CRONTAB, replace(DEFAULTS, timezone="UTC"))

    assert reading in notes[0]
    for each, (verdict, user, words) in zip(found, expected, strict=True):
        assert each.verdict == verdict, each.notes
        assert words in " ".join(each.notes)
        if each.document is not None:
            assert get_step(each)["kwargs"].get("user") == user
