"""What ``celery -A celery_app worker`` looks for."""

from celery_app.app import app as celery

__all__ = ["celery"]
