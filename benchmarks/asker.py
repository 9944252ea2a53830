"""
Ask a server at a steady rate, whatever it takes to answer: a process of its own.

``python -m benchmarks.asker``, with a JSON object on its standard input: ``url``,
``keys``, ``begin`` (seconds since the epoch), ``rate`` (a second), ``seconds``, and
``requests``, arrays of [method, path, body] that are sent in turns. Prints a JSON array
of [seconds after the beginning, seconds taken, status]; 0: there was no answer, -1: it
was not sent any more, since the time was over.

What a request took is counted from when it was to be sent: if all connections wait,
the request waits as well, as a person would.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from itertools import count
from typing import Any

from benchmarks.web import Client

#: Requests under way at a time, at most.
CONNECTIONS = 32

#: Requests that could not be sent until so long after the last was to be sent are not.
GRACE_S = 2.0


def ask(asked: dict[str, Any]) -> list[tuple[float, float, int]]:
    """Return when each request was to be sent, what it took, and its status."""
    requests, begin, rate = asked["requests"], asked["begin"], asked["rate"]
    numbers, found = count(), []

    def work(offset: int) -> None:
        # Each begins with another key, lest all use the same at a time.
        keys = asked["keys"][offset:] + asked["keys"][:offset]
        client = Client(asked["url"], keys)
        while (number := next(numbers)) < rate * asked["seconds"]:
            method, path, body = requests[number % len(requests)]
            at = number / rate
            time.sleep(max(0.0, begin + at - time.time()))
            if time.time() > begin + asked["seconds"] + GRACE_S:
                found.append((at, 0.0, -1))
                continue
            data = None
            if body is not None:
                data = body.replace("NUMBER", f"{begin:.0f}-{number}").encode()
            try:
                status = client.ask(path, method, data).status
            except (OSError, http.client.HTTPException):
                status = 0
            found.append((at, time.time() - begin - at, status))
        client.close()

    threads = [
        threading.Thread(target=work, args=[number % len(asked["keys"])])
        for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


if __name__ == "__main__":
    print(json.dumps(ask(json.load(sys.stdin))))
