"""
Mails: who wrote what to whom, and that nobody gets it twice.

message says what a mail is, template renders what admins write, executive_summary (and
its _html, _pdf) words the summary mail. deliver sends to frozen recipients under
the marks of delivery_marks; uncertain_mails has those whose fate nobody knows.
"""
