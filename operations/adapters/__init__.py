"""
The ports of operations, for real: files, servers and processes of the world outside.

Each is handed to the steps by whoever makes a worker; nothing else imports them, and
each has a fake in the tests that passes the same conformance suite where it has one.
"""
