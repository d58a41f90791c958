"""Worker processes of the command line: their number, and that each uses one thread."""

from __future__ import annotations

import os

import pytest

from convexstruct.processes import THREADS, one_a_core


@pytest.mark.slow
def test_the_processes_of_the_command_line_are_one_a_core_with_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, quick, expected in (({0}, False, False), ({0, 1}, True, False), ({0, 1}, False, True)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: cores, raising=False)
        for name in THREADS:
            monkeypatch.setenv(name, "1")
            monkeypatch.delenv(name)
        with one_a_core(quick) as executor:
            assert (executor is not None) == expected
            if executor is not None:
                assert executor.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
                assert executor.submit(os.getpid).result() != os.getpid()
