"""A project configured as Django's are; its default queue has one of our words."""

from __future__ import annotations

from celery import Celery

app = Celery("site")
app.config_from_object("tests.neighbours.site_settings", namespace="CELERY")
app.autodiscover_tasks(["tests.neighbours"])
