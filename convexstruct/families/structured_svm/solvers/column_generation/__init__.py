"""Column generation: pools of labellings, a restricted master, and what begins them."""
