"""What the process does with memory that was freed."""

from __future__ import annotations

import numpy as np


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB of freed memory in the process, for the arrays of the next round.

    By default the memory of an array of a few megabytes is returned to the kernel when the array is freed, and mapped
    again page by page when the next such array is made; with the score tables of a structural SVM that is a third of a
    round. Freeing one large chunk raises the size from which this happens (mallopt(3), "dynamic mmap threshold"). With
    other allocators this function has no effect. The chunk is never written to, so it takes no memory.
    """
    np.empty(31 * 2**20, dtype=np.uint8)  # just under the largest value that glibc accepts, 32 MiB
