"""
Why something ran, or did not: by reading the rules again, against what is recorded.

history fetches what an explanation needs, why answers for one instant, audit for a
whole stretch of time. The readings here share as little as they can with those of the
tick (cron_reading, expected_events), so that an error there is not repeated here. The
faces come in, and the tests; the tick never does.
"""
