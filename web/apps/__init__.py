"""Small apps: what each has, what in it needs a look, its pauses and users."""
