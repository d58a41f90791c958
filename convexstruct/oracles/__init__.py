"""Max, sum and sample over structures, on score tables; projections onto boxes, simplices and marginals.

An oracle takes score tables on a graph; features, losses and parameters are handled elsewhere. Each file holds one
oracle. Among labellings of equal score each takes the same one every time, the first that its recursion meets; which
one that is its file says. `enumeration` is the brute-force reference that all others are tested against.
"""
