"""The formulations in CVXPY, one family a file."""
