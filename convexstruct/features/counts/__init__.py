"""Joint feature maps as sparse counts: how often each parameter of theta is used by (hidden, observed) values.

A feature map binds data to a graph. It turns theta into score tables, asks an oracle, and turns the oracle's answer
back into counts. For example k and a labelling s of its hidden variables

    score_k(s) = theta' counts_k(s) + loss_weight * loss_k(s),

where counts_k(s) is the number of uses of each parameter and loss_k a decomposable loss against the true labelling.
Two maps are here: `HMMCounts` (chains, fast, with one symbol or several a step) and `NetworkCounts` (any Bayesian
network, any hidden set).

Labellings are flat integer arrays, example after example, each example's hidden variables in the order of the data.
"""
