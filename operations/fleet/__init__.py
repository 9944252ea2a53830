"""Who works here: the installation, its processes, and strangers on its broker."""
