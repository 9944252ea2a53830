"""From when on something is late, or too little: the one table for every face."""

from datetime import timedelta

#: Ticks are a minute apart, and one that takes some seconds is not late.
TICK_LATE_AFTER = timedelta(seconds=90)

#: No transaction of ours lasts as long, and others have no need to.
LOCKED_AFTER = timedelta(seconds=10)

#: Heartbeats that a leader may miss: one of them may just be on its way.
LOST_BEATS = 2

#: Of 100 operations, 95 begin sooner after they were recorded, or they begin late.
LAG_LONG = timedelta(seconds=30)

#: What begins later than this after it was due is late: ticks are a minute apart.
BEGAN_LATE_AFTER = timedelta(minutes=1)

#: Unsent for longer, with nothing in the way, is late: the leader looks every second.
UNSENT_AFTER = timedelta(minutes=1)

#: Sent and not taken for longer, although workers take: the queue is behind.
UNTAKEN_AFTER = timedelta(minutes=5)

#: How long a process that ended without signing off is told of.
SILENT_FOR = timedelta(hours=1)

#: While there are mails to send, one is tried at least every five minutes.
MAIL_FORGOTTEN_AFTER = timedelta(minutes=15)

#: With fewer free bytes an operator should look: a large refresh needs this much.
LITTLE_SPACE = 1024**3

#: With fewer free bytes refreshes wait, or will soon.
NO_SPACE = 100 * 1024**2
