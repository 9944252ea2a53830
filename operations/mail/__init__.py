"""
Mails: who wrote what to whom, and that nobody gets it twice.

message says what a mail is, template renders what admins write, summary words the
executive summary (summary_html, summary_pdf). deliver sends to frozen recipients under
the marks of delivery_marks; uncertain has those whose fate nobody knows.
"""
