"""Actions to begin with, one of each kind, for whoever writes their first one."""
