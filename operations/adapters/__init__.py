"""
The real implementations of the ports: files, servers and processes.

celery_app/assembly.py hands them to the steps. The tests have a fake of each, and where
there is a conformance suite, both pass it.
"""
