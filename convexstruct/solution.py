"""What comes back from a solve: Status, Trace, Solution; and how it is kept without pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convexstruct.files import write_whole
from convexstruct.tolerances import upside_down

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from convexstruct.certificates import Certificate

#: A point of a problem: arrays by the names the problem gives them, e.g. ``{"theta": ...}``.
Point = Mapping[str, NDArray[Any]]


class Status(Enum):
    """How a solve ended; the text says what to do next."""

    OPTIMAL = "certified to the tolerance asked for"
    TIME_LIMIT = "stopped by the time limit: raise time_limit, or go on with start=solution"
    ITERATION_LIMIT = "stopped by the iteration limit: raise max_iterations, or go on with start=solution"
    INTERRUPTED = "interrupted: the best certified point so far is kept; go on with start=solution"
    ROUNDING = "the rounding of the bounds' own sums is larger than the gap wanted: scale the data, or ask for less"
    STALLED = "the solver has nothing left to try: use another solver from here, or accept the gap shown"
    INACCURATE = "the solver claimed what its points do not prove, or they are infeasible: trust only the certificate"
    UNCERTIFIED = "finished; the method has no certificate for this problem, so nothing is claimed about optimality"
    UNBOUNDED = "the problem as stated has no lowest value: look for the constraint that is missing"
    INFEASIBLE = "the problem as stated has no feasible point: look for the constraints that contradict each other"
    FAILED = "the iterates became non-finite: check the scale of the data; the last finite point is kept"

    @property
    def solved(self) -> bool:
        return self is Status.OPTIMAL


@dataclass
class Trace:
    """One row an iteration: what the solver believed. Only a certificate proves bounds, at the end of the run.

    ``primal`` and ``lower_bound`` are the best so far by the solver's own figures, ``seconds`` since the start, and
    ``parts`` the seconds by name of subroutine, where the solver reports them (cumulative). ``least`` is what gaps are
    measured against at least, absolute (`convexstruct.certificates.least_unit`).
    """

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    oracle_calls: list[int] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    least: float = 0.0

    def append(self, iteration: int, seconds: float, oracle_calls: int, primal: float, lower_bound: float) -> None:
        self.iteration.append(iteration)
        self.seconds.append(seconds)
        self.oracle_calls.append(oracle_calls)
        self.primal.append(primal)
        self.lower_bound.append(lower_bound)

    def __len__(self) -> int:
        return len(self.iteration)

    def __iter__(self) -> Iterator[tuple[int, float, int, float, float]]:
        return iter(zip(self.iteration, self.seconds, self.oracle_calls, self.primal, self.lower_bound))

    def first_within(self, gap: float) -> tuple[int, float] | None:
        """(iteration, seconds) at which the solver's own bounds first came within the relative ``gap``; None if never,
        or if they were upside down when they did."""
        for (iteration, seconds, *_), reached in zip(self, self.gaps()):
            if reached <= gap:
                return None if upside_down(reached) else (iteration, seconds)
        return None

    def gaps(self) -> list[float]:
        """The relative gap of each row, by the solver's own figures."""
        from convexstruct.certificates import relative_gap

        return [relative_gap(primal, lower, self.least) for _, _, _, primal, lower in self]


@dataclass(frozen=True, eq=False)
class Solution:
    """A point, a dual point, the certificate computed from them by the problem alone, and how they were found.

    Attributes
    ----------
    point : mapping of names to arrays; the primal point (for a margin problem ``{"theta": (d,)}``).
    dual_point : mapping of names to arrays, or None: a witness whose dual feasibility the problem can check by itself.
    certificate : `Certificate`: primal, lower bound, gap, residuals. Undefined is inf, never 0.
    status : `Status`; its text says what to do next.
    trace : `Trace`.
    solver : name of the solver, with the reason it was picked where `solve` picked it.
    message : one sentence, where there is more to say than the status does.
    """

    point: Point
    dual_point: Point | None
    certificate: Certificate
    status: Status
    trace: Trace
    solver: str = ""
    message: str = ""

    @property
    def primal(self) -> float:
        return self.certificate.primal

    @property
    def lower_bound(self) -> float:
        return self.certificate.lower_bound

    @property
    def gap(self) -> float:
        return self.certificate.gap

    @property
    def seconds(self) -> float:
        return self.trace.seconds[-1] if len(self.trace) else 0.0

    @property
    def iterations(self) -> int:
        return self.trace.iteration[-1] if len(self.trace) else 0

    def __repr__(self) -> str:
        return (
            f"Solution({self.status.name}, {self.lower_bound:.8g} <= optimum <= {self.primal:.8g}, "
            f"gap {self.certificate.gap:.2g}, {self.iterations} iterations, {self.seconds:.2f} s, {self.solver})"
        )

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the solver's own bounds against time, and the certificate at their end (`convexstruct.plots.bounds`)."""
        from convexstruct.plots import bounds

        return bounds(self, axes=axes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the solution to one ``.npz`` file, whole or not at all; no pickle."""
        arrays: dict[str, NDArray[Any]] = {f"point/{k}": np.asarray(v) for k, v in self.point.items()}
        if self.dual_point is not None:
            arrays |= {f"dual_point/{k}": np.asarray(v) for k, v in self.dual_point.items()}
        head = {
            "format": 1,
            "has_dual_point": self.dual_point is not None,
            "status": self.status.name,
            "solver": self.solver,
            "message": self.message,
            "certificate": asdict(self.certificate),
            "trace": asdict(self.trace),
        }
        arrays["head"] = np.array(json.dumps(head))
        for name, array in arrays.items():
            if array.dtype.hasobject:
                raise ValueError(f"cannot save {name}: an array of Python objects would need pickle")
        return write_whole(path, lambda file: np.savez_compressed(file, **arrays), "solution")  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Solution:
        """Read what `save` wrote.

        Raises
        ------
        ValueError
            If the file is not a saved solution (among others: if it would need pickle).
        """
        from convexstruct.certificates import Certificate

        try:
            with np.load(path, allow_pickle=False) as archive:
                head = json.loads(str(archive["head"]))
                point = {k.removeprefix("point/"): archive[k] for k in archive.files if k.startswith("point/")}
                dual = {k.removeprefix("dual_point/"): archive[k] for k in archive.files if k.startswith("dual_point/")}
            return cls(
                point=point,
                dual_point=dual if head["has_dual_point"] else None,
                certificate=Certificate(**head["certificate"]),
                status=Status[head["status"]],
                trace=Trace(**head["trace"]),
                solver=head["solver"],
                message=head["message"],
            )
        except FileNotFoundError:
            raise
        except Exception as error:
            raise ValueError(f"path: {os.fspath(path)} is not a saved solution ({error})") from error
