"""Conditional random fields whose examples lie in files."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.penalty import NO_PENALTY
from convexstruct.features.example_files import KEPT_BYTES, elsewhere, read_files
from convexstruct.features.graphs.filed import FiledFeatures
from convexstruct.features.graphs.forbidden import read_pairs
from convexstruct.validation.arguments import number


def from_files(
    cls: Any,
    paths: Any,
    *,
    forbidden: ArrayLike | None = None,
    l1: float = 0.0,
    memory: int = KEPT_BYTES,
    C: float | None = None,
    C_mean: float | None = None,
    lam: float | None = None,
    beta: float | None = None,
) -> Any:
    """Chains in files, whose layout is that of `convexstruct.features.example_files`. Each file is a shard, read
    by who works on it: by the workers of ``executor``, or here, one after the other. `LBFGS` solves it.

    Parameters
    ----------
    paths : a list of files, or a folder, of which all ``*.npz`` are meant. Workers need them by the same paths.
    memory : bytes of examples that a process keeps between rounds; files beyond are read again each round.
    forbidden, l1, C, C_mean, lam, beta : as in `ConditionalRandomField.read`; they must give a penalty.

    Raises
    ------
    ValueError
        If an argument is malformed, or there is no penalty. Here, or from `solve` and `certify` in any round: if a file
        is missing, damaged, changed, or holds what it must not. The sentence names the file and the sequence.
    """
    features = read_files(paths, memory, FiledFeatures)
    scale = Scale.read(features.n_examples, free=True, C=C, C_mean=C_mean, lam=lam, beta=beta)
    pairs = read_pairs(forbidden, features.sample)
    problem = cls(features, scale, elsewhere(features), number("l1", l1, least=0), pairs)
    if problem.penalty == NO_PENALTY:
        raise ValueError("C, C_mean, lam, beta and l1 give no penalty, wanted one for examples in files")
    return problem
