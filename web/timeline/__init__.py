"""The timeline: actions side by side on a line of time, and where they collide."""
