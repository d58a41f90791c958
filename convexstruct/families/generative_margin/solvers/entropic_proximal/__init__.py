"""The entropic proximal point method: `method` has its stages one after the other, `stage` the smooth function that one
of them minimises, `descent` its steps, in a diagonal metric (`diagonal`, which `invariants` corrects) or in Newton's
(`newton`, from the `covariance` of the counts)."""

from convexstruct.families.generative_margin.solvers.entropic_proximal.method import (
    EntropicProximal as EntropicProximal,
)
