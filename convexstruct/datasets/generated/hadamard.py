r"""The Hadamard instance of paper 2, section 3: no method that sees d pieces one by one can be fast on it.

    H_1 = [1],  H_2d = [[H_d, H_d], [H_d, -H_d]],  A = H_d / sqrt(d)          orthonormal columns a_1..a_d
    J(w) = lam/2 |w|^2 + max_j <a_j, w>                                        (14)

Cutting planes from w_0 = 0 see one new column a round, and columns are orthogonal: for t < d their iterate is
w_t = -1/(lam t) times the sum of t columns, so J(w_t) = 1/(2 lam t), J_t(w_t) = -1/(2 lam t), and the gap is exactly
1/(lam t). The optimum is -1/(2 lam d), at w* = -1/(lam d) times the sum of all columns.

Counted are iterates from t' = 1 on (corrected: (4) takes the least J over all t' <= t). At the start w_0 = 0 J is 0,
below every J(w_t), t < d: with it the gap is 1/(2 lam t), the rate unchanged.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from convexstruct.arrays import Matrix
from convexstruct.validation.arguments import refuse, sized, whole


def hadamard(d: int) -> Matrix:
    """A = H_d / sqrt(d) of (14), shape (d, d): symmetric, A'A = I, so that row j is column a_j too.

    Source: paper 2, section 3. d : number of pieces and of dimensions, a power of two (8 d^2 bytes).

    Raises
    ------
    ValueError
        If d is not a power of two.
    """
    size = whole("d", d, least=1)
    if size & (size - 1):
        refuse("d", d, "a power of two: Hadamard matrices of this kind have no other size")
    sized("d", size, size * size)
    return np.asarray(linalg.hadamard(size, dtype=np.float64) / np.sqrt(size))
