"""
Who works here: the installation, its processes, and strangers on its broker.

presence renews the row of a process (processes), with the settings that it must share
with others of its role (agreement). deaths tells what a worker's children died of.
"""
