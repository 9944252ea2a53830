"""
Who may ask over HTTP: keys, sign-ins, and requests that are repeated.

roles says what a caller may do; keys makes, reads and ends the keys that programs ask
with, sign_ins the links and sessions of people, and secret_text is how the secret of
each is written. repeats remembers the answers to requests that may come twice.

This room and changes.py beside it are about those who ask, not about what they ask for.
It is the only one of overview that writes.
"""
