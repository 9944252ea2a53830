"""Which operations may be sent now, in which order, and why others must wait."""
