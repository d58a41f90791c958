"""Small conditional random fields on chains, also with partial labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.families.log_linear import ConditionalRandomField, HiddenField


def field(seed: int = 0, kind: str = "chains", n_labels: int = 3, **options: Any) -> ConditionalRandomField:
    """kind : "chains"; "sparse" features; "forbidden": labels never fall."""
    rng = np.random.default_rng([7, seed])
    lengths = [4, 1, 3, 2]
    labels = [np.sort(rng.integers(n_labels, size=n)) for n in lengths]
    x: list[Any] = [rng.normal(size=(n, 2)) for n in lengths]
    if kind == "sparse":
        x = [sp.csr_array(one * (rng.random(one.shape) < 0.6)) for one in x]
    if kind == "forbidden":
        options["forbidden"] = np.tri(n_labels, k=-1, dtype=bool)
    return ConditionalRandomField.read(
        x, labels, n_labels, weights=rng.uniform(0.5, 2.0, len(lengths)), **({"C": 1.5} | options)
    )


def partly(seed: int, all_known: bool = False, **options: Any) -> HiddenField:
    """Three chains with three labels, two node features, weights; each node allows from one to three labels."""
    rng = np.random.default_rng(seed)
    allowed = [rng.random((n, 3)) < 0.5 for n in (3, 4, 3)]
    for part in allowed:
        part[np.arange(len(part)), rng.integers(3, size=len(part))] = True
    if all_known:
        allowed = [np.eye(3, dtype=bool)[part.argmax(axis=1)] for part in allowed]
    inputs, weights = [rng.normal(size=(len(part), 2)) for part in allowed], rng.uniform(0.5, 2.0, 3)
    return HiddenField.conditional(inputs, allowed, weights=weights, **(options or {"lam": 0.3}))
