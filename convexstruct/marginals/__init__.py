"""All labellings written out, local polytopes as sparse rows (both for the formulations in models/), and mixtures of
labellings from marginals."""
