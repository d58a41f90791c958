"""Chains: best labelling, sums, samples; batched over sequences of unequal lengths."""
