"""A Django project with tasks of its own, as Celery's documentation has it."""

from __future__ import annotations

from tests.neighbours.django_site.celery import app as celery_app

__all__ = ["celery_app"]
