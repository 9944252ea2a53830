"""Its settings: nothing of ours is in them; its default queue has one of our words."""

from __future__ import annotations

import os

from tests.neighbours.project import BROKER

SECRET_KEY = "of a test"
INSTALLED_APPS = ["tests.neighbours.django_site"]
USE_TZ = True
CELERY_BROKER_URL = os.environ.get(BROKER, "memory://")
CELERY_TASK_DEFAULT_QUEUE = "quick"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_BEAT_SCHEDULE = {
    "hourly report": {"task": "site.count", "schedule": 3600.0, "args": (7,)}
}
