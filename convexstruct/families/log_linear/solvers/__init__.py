"""How it is solved: one algorithm a file."""
