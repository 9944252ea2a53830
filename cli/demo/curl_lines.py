"""What the demo prints for whoever wants to try the HTTP API: lines for a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

from cli.demo.data import TOCO

#: The small app that those lines write into; the demo itself leaves it alone.
YOURS = "yours"


def make_curl_lines(url: str, key: str, examples: Path) -> list[str]:
    """
    Return lines that preview, post, run, watch and cancel the two example actions.

    Each works as pasted into a POSIX shell, in this order; curl 7.83 or later.

    Args:
        url: Where the API answers.
        key: Of an operator or more, who may also write actions.
        examples: The folder of the two documents.
    """
    asked = {
        # What each action takes to be run by hand.
        shlex.quote(f"@{examples / 'weekly-update.json'}"): "{}",
        shlex.quote(f"@{examples / 'bring-back-inactive-users.json'}"): shlex.quote(
            f'{{"user": "{TOCO}"}}'
        ),
    }
    preview = f'api "$WEB/api/v1/previews?app={YOURS}" --json'
    post = f'made "$WEB/api/v1/actions?app={YOURS}" --json'
    lines = [
        f"KEY={shlex.quote(key)} WEB={shlex.quote(url)}",
        'api() { curl -sS --oauth2-bearer "$KEY" "$@"; }',
        "made() { api -o /dev/null -w '%header{location}' \"$@\"; }",
    ]
    for document, body in asked.items():
        run = f'RUN=$(made "$WEB$ACTION/runs" --json {body})'
        lines += [
            f"{preview} {document}",
            f"ACTION=$({post} {document})",
            f'{run}; api "$WEB$RUN/state?wait=30"',
            f'{run}; api "$WEB$RUN/cancel" --json {{}}',
        ]
    return lines
