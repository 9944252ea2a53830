"""The page at which people sign in, with a key or a link, and sign out."""
