"""
Mails: their content, their recipients, and the marks that prevent sending one twice.

message defines what a mail is, template renders what admins write, executive_summary
(with _html and _pdf) words the summary mail. deliver sends to frozen recipients under
the marks of delivery_marks; uncertain_mails handles mails whose fate nobody knows.
"""
