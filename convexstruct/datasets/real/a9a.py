"""Income above 50K from a census: UCI "Adult", coded as 123 binary features by J. Platt, distributed by LIBSVM.

The text is svmlight's (see `convexstruct.datasets.real.svmlight`). Feature 123 occurs in one training row and in no
test row, so the width is stated here and not read off the text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels
from convexstruct.brief import brief
from convexstruct.datasets.real import svmlight
from convexstruct.datasets.real.sources import read_part
from convexstruct.validation.arguments import text_of

#: Columns of the table.
N_FEATURES = 123


@dataclass(frozen=True)
class Incomes:
    """People and whether they earn above 50K a year.

    features : (n, 123) sparse, entries 0 or 1. labels : (n,) +1 above, -1 not.
    """

    features: sp.csr_array
    labels: Labels

    __repr__ = brief


def parse(text: str) -> Incomes:
    """Read the text of the set. ValueError if the text is not svmlight's, a label is neither +1 nor -1, or an entry is
    not 1."""
    text = text_of("text", text)
    features, labels = svmlight.parse(text, N_FEATURES)
    if not np.isin(labels, (-1.0, 1.0)).all():
        raise ValueError(f"a9a's labels must be +1 or -1, got {labels[~np.isin(labels, (-1.0, 1.0))][0]:g}")
    if not (features.data == 1.0).all():
        raise ValueError(f"a9a's entries must be 1, got {features.data[features.data != 1.0][0]:g}")
    return Incomes(features, labels.astype(np.int64))


def a9a(part: str = "train") -> Incomes:
    """The 32,561 training rows or the 16,281 test rows.

    Raises
    ------
    ValueError
        If ``part`` is neither "train" nor "test", or the set is not here (see `convexstruct.datasets.real.sources`).
    """
    return parse(read_part("a9a", part))
