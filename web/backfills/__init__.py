"""Past occurrences of an action that run after all: listed, asked, and followed."""
