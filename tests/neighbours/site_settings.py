"""Settings of a site, as those of Django: Celery's have a prefix."""

from __future__ import annotations

import os

from tests.neighbours.project import BROKER

DEBUG = False
CELERY_BROKER_URL = os.environ[BROKER]
CELERY_TASK_DEFAULT_QUEUE = "quick"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_IGNORE_RESULT = True
