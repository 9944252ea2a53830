"""What may be sent now, and in which order; and for people, what hinders the rest."""
