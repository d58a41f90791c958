"""Max, sum and sample over structures, on score tables; projections onto boxes, simplices and marginals.

An oracle takes score tables on a graph and knows nothing of learning. One oracle, one file. Ties are broken the same
way everywhere: among the labellings of greatest score the one that is smallest when read from its last variable to its
first (colexicographic order); the oracles for graphs with cycles say where they cannot promise that. `enumeration` is
the truth that all the others are tested against.
"""
