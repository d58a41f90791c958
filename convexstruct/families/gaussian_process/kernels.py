r"""Kernels as Gram matrices: k at all pairs of distinct inputs, computed once.

    rbf          k(x, y) = exp(-gamma |x - y|^2)
    linear       k(x, y) = gamma x'y + offset
    polynomial   k(x, y) = (gamma x'y + offset)^degree

With gamma > 0, offset >= 0 and a whole degree >= 1 each is positive semidefinite. A Gram matrix given by a user need
not be, and is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Matrix
from convexstruct.features.counts.window import window
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
    degree : the exponent of the polynomial kernel; a whole number of at least 1.
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
        """Read "rbf", ("rbf", {"gamma": 0.5}), or a `Kernel`. ValueError if it is none of these, or a parameter is
        unknown or out of range."""
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
            np.minimum(table, 0.0, out=table)  # minus the squared distance, at most 0 in spite of rounding
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
    matrix : (D, D), symmetric and positive semidefinite. A matrix given without a kernel is checked up to rounding
        (eigenvalues down to -1e-9 of the largest row sum are accepted), and used as it is.
    kernel : the kernel that the matrix was computed from, or None. With a kernel the matrix is positive semidefinite by
        construction and not checked.
    inputs : (D, d) the inputs, given with ``kernel``, so that k can be evaluated between new inputs and these.
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
        with np.errstate(all="ignore"):  # an overflow gives entries that are not finite, which are refused
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

    def against(self, examples: list[Matrix]) -> Matrix:
        """k between new inputs and those of the matrix, (n, D): computed where the kernel is known, else given as
        ``examples``. ValueError if the number of columns is not that of the matrix's inputs (without a kernel: that of
        the matrix).

        examples : tables (length, d), or without a kernel tables (length, D) of the kernel values themselves.
        """
        rows = np.concatenate(examples)
        if self.kernel is None or self.inputs is None:
            if rows.shape[1] != self.size:
                raise ValueError(
                    f"examples have {rows.shape[1]} columns, wanted {self.size}: the kernel is not known, the problem "
                    "came from a bare Gram matrix; give k of each new position against each input of that matrix"
                )
            return rows
        if rows.shape[1] != self.inputs.shape[1]:
            raise ValueError(
                f"examples have {rows.shape[1]} columns, wanted {self.inputs.shape[1]}: as many as in training"
            )
        return self.kernel(rows, self.inputs)


def read_inputs(inputs: Any, name: str = "inputs") -> list[Matrix]:
    """A list of inputs as float arrays (length, d); a flat sequence has one feature for each position. ValueError if
    there is no sequence, or one is empty, is not a table of finite numbers, or has another number of columns than the
    first.

    name : the name of the list in error messages.
    """
    given = sequence(name, inputs, "a list of at least one sequence", least=1)
    read = (real(f"{name}[{i}]", each, ("positions",), ("positions", "features")) for i, each in enumerate(given))
    arrays = [array[:, None] if array.ndim == 1 else array for array in read]
    for i, array in enumerate(arrays):
        if array.shape[1] != arrays[0].shape[1]:
            raise sentence(f"{name}[{i}] has {array.shape[1]} columns, {name}[0] has {arrays[0].shape[1]}")
    return arrays


def one_hot_windows(sequences: Sequence[ArrayLike], n_symbols: int, radius: int) -> list[Matrix]:
    """Windows of symbols from ``radius`` steps before each position to ``radius`` after it, one indicator for each
    place and symbol.

    sequences : integer sequences (T_k,). Returns arrays (T_k, (2 radius + 1) (n_symbols + 1)) of 0 and 1; one more
    symbol stands for places beyond the ends. x'y is the number of places where two windows agree, |x - y|^2 twice the
    number of the others.
    """
    seen = window(sequences, n_symbols, radius)
    return [(one[:, :, None] == np.arange(n_symbols + 1)).reshape(len(one), -1).astype(np.float64) for one in seen]


def _pair(kernel: Any) -> tuple[Any, Mapping[str, Any]]:
    shaped = isinstance(kernel, (tuple, list)) and len(kernel) == 2
    if not shaped or not isinstance(kernel[0], str) or not isinstance(kernel[1], Mapping):
        refuse("kernel", kernel, "a name or a pair of a name and its parameters")
    return kernel[0], kernel[1]
