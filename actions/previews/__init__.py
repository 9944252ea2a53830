"""
Rules and their occurrences in words, for admins. Pure.

sentences puts a whole rule in a sentence, clock_words has the words for cron and
calendar rules, preview combines occurrences, sentence and notes on clock changes. The
faces use it; nothing is decided by what is said here.
"""
