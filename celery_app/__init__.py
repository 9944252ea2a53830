"""
The Celery side: what ``celery -A celery_app worker`` loads, and all use of brokers.

app is the application; tasks run what messages bring; operation_sender hands operations
to the broker. task_sender sends tasks of users' own, and answer_reader reads how they
ended. assembly makes scheduler and worker from the settings; the entry points
import it. Code that needs neither Celery nor a broker does not belong here.
"""

from celery_app.app import app as celery

__all__ = ["celery"]
