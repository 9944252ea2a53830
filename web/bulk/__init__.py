"""Many actions paused, resumed or run: counted, asked, and followed."""
