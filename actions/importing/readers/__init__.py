"""Where each origin keeps its entries, read with deadlines and without writing."""
