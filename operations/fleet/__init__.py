"""
The installation, its processes, and strangers on its broker.

presence renews the row of a process (processes), with the settings that all processes
of its role must share. deaths finds out why a worker's children died.
"""
