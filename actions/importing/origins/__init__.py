"""What the entries of each origin become: one module for each of them. Pure."""
