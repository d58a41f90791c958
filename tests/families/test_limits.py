"""Whether every solver keeps its limit: ties everywhere, one example as large as a data set, an oracle that sleeps.

Time is that of this process, so that no load of the machine changes what happens; what sleeps moves it forward. The
sweep with larger data, limits and the cases of all families is ``python benchmarks/limits.py --cases``.
"""

from __future__ import annotations

import time
from functools import cache
from itertools import cycle
from typing import Any

import pytest

from benchmarks import limits
from convexstruct.core.best_points import GRACE_SECONDS

#: Seconds that a run gets, and the size of the instances, as a share of the benchmark's.
LIMIT, SCALE = 0.03, 0.1
#: Of a limit of 0.2, 1 and 3 s an oracle that sleeps takes the most, for it costs no time here.
SLEEPER_LIMITS = [0.2, 1.0, 3.0]


@pytest.fixture(autouse=True)
def _time_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: time.process_time() + slept[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.__setitem__(0, slept[0] + seconds))


@cache
def instance(name: str, kind: str) -> Any:
    return limits.EVERY[name](kind, SCALE)


@pytest.mark.parametrize(("name", "kind"), [*zip(limits.EVERY, cycle(["ties", "one example"]))])
def test_every_solver_is_back_in_time_with_the_bounds_that_it_had(name: str, kind: str) -> None:
    problem = instance(name, kind)
    for solver, limit, seconds, found in limits.swept(problem, SLEEPER_LIMITS if name == "sleeper" else [LIMIT]):
        assert seconds <= limit + GRACE_SECONDS, solver
        assert not limits.lost(found), solver
        assert not found.lower_bound > found.primal or found.gap >= -1e-9, solver
