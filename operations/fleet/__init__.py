"""
The installation, its processes, and strangers on its broker.

presence.py renews the row of a process (processes.py), with the settings that all
processes of its role must share, and the wish that a worker rests. strangers.py keeps
what came to our workers and was not ours.
"""
