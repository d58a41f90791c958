"""Semismooth Newton in proximal point steps, the default of regularised risks: `proximal_point` has the algorithm."""
