"""Freed memory, which the process keeps: sums over labellings make and free large tables in each round."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

#: mallopt(3): which of glibc's two thresholds, and bytes. Blocks below the first, the most that glibc takes, are no
#: mappings of their own; at most the second, twice that as in glibc's own rule, stays free at the end of the heap.
THRESHOLDS = {-3: 2**25, -1: 2**26}


@cache
def keep_freed() -> None:
    """Have glibc keep what is freed, up to `THRESHOLDS`; nothing with other C libraries.

    Else each table may be returned to the system and fetched again, page by page. So it is on the workers of Dask,
    which sets MALLOC_TRIM_THRESHOLD_: there that took from a third to a half of the seconds of a processor.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        for threshold, n_bytes in THRESHOLDS.items():
            libc.mallopt(threshold, n_bytes)
