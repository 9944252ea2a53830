"""The page that tells what the keys of the keyboard do."""
