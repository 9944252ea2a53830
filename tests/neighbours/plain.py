"""A project as Celery's first steps make it: nothing but a broker is configured."""

from __future__ import annotations

import os

from celery import Celery

from tests.neighbours.project import BROKER, note

app = Celery("shop", broker=os.environ[BROKER])


@app.task(name="shop.count")
def count(number: int) -> None:
    note("shop", number)
