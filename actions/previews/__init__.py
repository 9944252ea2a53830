"""
Rules and their occurrences in words, for admins. Pure.

sentences says a whole rule in a sentence, clock_words has the words of cron and
calendar rules, preview puts occurrences, sentence and notes of clock changes together.
The faces come in; nothing is decided by what is said here.
"""
