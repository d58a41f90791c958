"""Small random projections that several test files share."""

from __future__ import annotations

import numpy as np

from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection


def box(seed: int, n: int = 6) -> BoxProjection:
    rng = np.random.default_rng(seed)
    lower, upper = -rng.random(n), rng.random(n)
    lower[rng.random(n) < 0.2], upper[rng.random(n) < 0.2] = -np.inf, np.inf
    s = rng.choice([-1.0, 0.0, 2.0], size=n)
    z = float(s @ np.clip(rng.normal(size=n), lower, upper))
    return BoxProjection(rng.normal(size=n), lower, upper, s, z, rng.uniform(0.3, 2.0, size=n))


def chains(
    seed: int, lengths: tuple[int, ...] = (5, 2, 4), s: int = 3, nodes: bool = True, scale: float = 1.0
) -> MarginalProjection:
    rng = np.random.default_rng(seed)
    p, n = sum(lengths), len(lengths)
    node = rng.normal(size=(p, s)) if nodes else None
    scales = scale * rng.uniform(0.1, 2.0, size=n)
    return MarginalProjection.chains(lengths, rng.normal(size=(p - n, s, s)), node, scale=scales)


def tree(seed: int, n: int = 2) -> MarginalProjection:
    rng = np.random.default_rng(seed)
    return MarginalProjection.graph(
        [("a", "b"), ("b", "c", "d"), ("d",)],
        [rng.normal(size=(n, 2, 3)), rng.normal(size=(n, 3, 2, 2)), rng.normal(size=(n, 2))],
        d=[1.1, 0.5, 2.0],
        scale=rng.uniform(0.5, 2.0, size=n),
    )
