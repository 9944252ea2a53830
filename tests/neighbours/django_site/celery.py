"""Its Celery application, as Celery's documentation has it for Django."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.neighbours.django_site.settings")

app = Celery("site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
