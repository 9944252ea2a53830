"""Events: what happened to users, and what actions made of it."""
