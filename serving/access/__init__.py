"""
Who may ask over HTTP: keys, sign-ins, and requests that are repeated.

callers says what a caller may do. keys recognizes those that programs ask with, and has
what every secret is made and compared by; manage_keys makes and ends them, and invites;
key_documents is what people ask for and see of both. sign_ins has the links and
sessions of people. repeats remembers the answers to requests that may come twice.

It is about those who ask, not about what they ask for. Whoever asks comes in by
``signing_in`` beside it, and commands come in, too.
"""
