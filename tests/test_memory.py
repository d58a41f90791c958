"""Freed memory is kept, so that tables of each round do not fault in their pages again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from convexstruct.memory import THRESHOLDS

#: Makes and frees a table of 2 MiB, 512 pages, 50 times, and prints the pages that were faulted in.
TABLES = """
import resource
import numpy as np
from convexstruct.memory import keep_freed
{}
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    np.ones(2**18)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(first: str) -> int:
    """With the environment that Dask gives its workers."""
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    return int(subprocess.check_output([sys.executable, "-c", TABLES.format(first)], env=environment))


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has these thresholds")
def test_tables_are_faulted_in_once_where_dask_would_have_them_returned_each_time() -> None:
    assert faults("keep_freed()") < 2 * 512 < 40 * 512 < faults("")
    assert set(THRESHOLDS) == {-3, -1}  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
