"""A worker's claim on an operation: one conditional statement that tells if it won."""
