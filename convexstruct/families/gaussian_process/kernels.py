r"""Kernels as Gram matrices: k at all pairs of distinct inputs, computed once.

    rbf          k(x, y) = exp(-gamma |x - y|^2)
    linear       k(x, y) = gamma x'y + offset
    polynomial   k(x, y) = (gamma x'y + offset)^degree

With gamma > 0, offset >= 0 and a whole degree >= 1 each is positive semidefinite by construction. A Gram matrix handed
in by a user is not, and is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Matrix
from convexstruct.features.counts.hmm_channels import window
from convexstruct.features.graphs.gram import Factor, check_semidefinite, factor, symmetric
from convexstruct.validation.arguments import choice, mapping, number, refuse, sentence, sequence, whole
from convexstruct.validation.arrays import real

#: The kernels by name, and the parameters that each takes.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "rbf": ("gamma",),
    "linear": ("gamma", "offset"),
    "polynomial": ("gamma", "offset", "degree"),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel by name: "rbf", "linear" or "polynomial".

    gamma : scale of x'y, or of the squared distance; positive. offset : added to gamma x'y; at least 0.
    degree : of the polynomial; a whole number of at least 1.
    """

    name: str
    gamma: float = 1.0
    offset: float = 0.0
    degree: int = 2

    def __post_init__(self) -> None:
        choice("kernel", self.name, PARAMETERS)
        object.__setattr__(self, "gamma", number("kernel parameter gamma", self.gamma, above=0))
        object.__setattr__(self, "offset", number("kernel parameter offset", self.offset, least=0))
        object.__setattr__(self, "degree", whole("kernel parameter degree", self.degree, least=1))

    @classmethod
    def read(cls, kernel: Any) -> Kernel:
        """Read "rbf", ("rbf", {"gamma": 0.5}), or a `Kernel`.

        Raises
        ------
        ValueError
            If it is none of these, or a parameter is unknown or out of range.
        """
        if isinstance(kernel, Kernel):
            return kernel
        name, given = (kernel, {}) if isinstance(kernel, str) else _pair(kernel)
        known = PARAMETERS[choice("kernel", name, PARAMETERS)]
        return cls(name, **mapping(f"kernel {name}", given, (), known))

    def __call__(self, x: Matrix, y: Matrix) -> Matrix:
        """k at all pairs; x (n, d), y (m, d), result (n, m)."""
        table = x @ y.T
        if self.name == "rbf":
            table *= 2.0
            table -= np.einsum("ij,ij->i", x, x)[:, None]
            table -= np.einsum("ij,ij->i", y, y)
            np.minimum(table, 0.0, out=table)  # minus the squared distance, cleared of rounding
            table *= self.gamma
            return np.asarray(np.exp(table, out=table))
        table *= self.gamma
        table += self.offset
        return np.asarray(table**self.degree if self.name == "polynomial" else table)


@dataclass(frozen=True, eq=False)
class Gram:
    """A Gram matrix over D distinct inputs.

    Attributes
    ----------
    matrix : (D, D), symmetric and positive semidefinite. One handed in is checked up to rounding (eigenvalues down to
        -1e-9 of the largest row sum pass); it is used as it is, not repaired.
    kernel : the kernel it was computed from, or None. Then it is positive semidefinite by construction, unchecked.
    inputs : (D, d) the inputs, with ``kernel``: so that k can be evaluated against new ones.
    """

    matrix: Matrix
    kernel: Kernel | None = None
    inputs: Matrix | None = None

    def __post_init__(self) -> None:
        matrix = real("gram", self.matrix, ("n", "n"))
        if matrix.shape[0] != matrix.shape[1]:
            raise sentence(f"gram has shape {matrix.shape}, wanted a square matrix")
        if self.kernel is None:
            matrix = symmetric("gram", matrix)
            check_semidefinite("gram", matrix)
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def of(cls, kernel: Kernel, inputs: Matrix) -> Gram:
        """k at all pairs of ``inputs`` (D, d)."""
        with np.errstate(all="ignore"):  # where it overflows, what is not finite is refused
            matrix = kernel(inputs, inputs)
        if kernel.name == "rbf":
            np.fill_diagonal(matrix, 1.0)
        return cls(matrix, kernel, inputs)

    @property
    def size(self) -> int:
        return len(self.matrix)

    def factor(self) -> Factor:
        """L (D, r) with L L' = matrix up to rounding of each entry, r its rank;
        `convexstruct.features.graphs.gram.factor`."""
        return factor(self.matrix)

    def against(self, inputs: list[Matrix], name: str = "inputs") -> Matrix:
        """k of new inputs against those of the matrix, (n, D): computed where the kernel is known, else handed in.

        inputs : tables (length, d), or where there is no kernel (length, D), the kernel values themselves.
        name : what the sentence about bad input calls them.

        Raises
        ------
        ValueError
            If the inputs have not as many columns as those of the matrix (without a kernel: as the matrix).
        """
        rows = np.concatenate(inputs)
        if self.kernel is None or self.inputs is None:
            if rows.shape[1] != self.size:
                raise ValueError(
                    f"{name} have {rows.shape[1]} columns, wanted {self.size}: the kernel is not known, the problem "
                    "came from a bare Gram matrix; give k of each new position against each input of that matrix"
                )
            return rows
        if rows.shape[1] != self.inputs.shape[1]:
            raise ValueError(
                f"{name} have {rows.shape[1]} columns, wanted {self.inputs.shape[1]}: as many as in training"
            )
        return self.kernel(rows, self.inputs)


def read_inputs(inputs: Any, name: str = "inputs") -> list[Matrix]:
    """A list of inputs as float arrays (length, d); a flat sequence is one feature a position.

    name : what the sentences about bad input call the list.

    Raises
    ------
    ValueError
        If there is no sequence, one is empty, is no table of finite numbers, or has another number of columns.
    """
    given = sequence(name, inputs, "a list of at least one sequence", least=1)
    read = (real(f"{name}[{i}]", each, ("positions",), ("positions", "features")) for i, each in enumerate(given))
    arrays = [array[:, None] if array.ndim == 1 else array for array in read]
    for i, array in enumerate(arrays):
        if array.shape[1] != arrays[0].shape[1]:
            raise sentence(f"{name}[{i}] has {array.shape[1]} columns, {name}[0] has {arrays[0].shape[1]}")
    return arrays


def one_hot_windows(sequences: Sequence[ArrayLike], n_symbols: int, radius: int) -> list[Matrix]:
    """The symbols from ``radius`` steps before each position to ``radius`` after it, one indicator each.

    sequences : integer sequences (T_k,). Returns arrays (T_k, (2 radius + 1) (n_symbols + 1)) of 0 and 1; beyond the
    ends stands one more symbol. x'y counts the places where two windows agree, |x - y|^2 is twice those where not.
    """
    seen = window(sequences, n_symbols, radius)
    return [(one[:, :, None] == np.arange(n_symbols + 1)).reshape(len(one), -1).astype(np.float64) for one in seen]


def _pair(kernel: Any) -> tuple[Any, Mapping[str, Any]]:
    shaped = isinstance(kernel, (tuple, list)) and len(kernel) == 2
    if not shaped or not isinstance(kernel[0], str) or not isinstance(kernel[1], Mapping):
        refuse("kernel", kernel, "a name or a pair of a name and its parameters")
    return kernel[0], kernel[1]
