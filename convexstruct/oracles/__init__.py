"""Max, sum and sample over structures, on score tables; projections onto boxes, simplices and marginals.

An oracle takes score tables on a graph; features, losses and parameters are handled elsewhere. Each file holds one
oracle. Ties are broken the same way everywhere: among the labellings of greatest score the one that is smallest when
read from its last variable to its first (colexicographic order); the oracles for graphs with cycles say where they do
not guarantee this. `enumeration` is the brute-force reference that all others are tested against.
"""
