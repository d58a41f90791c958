"""The result of `solve`: Status and Solution, which are saved and loaded without pickle."""

from __future__ import annotations

import json
import math
import os
from dataclasses import MISSING, asdict, dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convexstruct.arrays import Point
from convexstruct.core.certificates import Certificate, Problem, certify, relative_gap
from convexstruct.core.trace import Trace
from convexstruct.files import read_saved, write_whole
from convexstruct.tolerances import ROUNDING, upside_down
from convexstruct.validation.arguments import path_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The format of a saved solution.
FORMAT = 1
#: Bytes that the arrays of a saved solution may take by default: 33 million numbers.
LARGEST_SAVED = 1 << 28
#: Kinds of arrays that a point may hold: booleans, integers, floats.
NUMBER_KINDS = "biuf"


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
    STATIONARY = "stationary, as the message has it, but the problem is not convex: try other starts, or accept the gap"
    UNBOUNDED = "the problem as stated has no lowest value: look for the constraint that is missing"
    INFEASIBLE = "the problem as stated has no feasible point: look for the constraints that contradict each other"
    FAILED = "the iterates became non-finite: check the scale of the data; the last finite point is kept"

    @property
    def solved(self) -> bool:
        """Whether the certificate meets the tolerance asked for: OPTIMAL alone."""
        return self is Status.OPTIMAL


@dataclass(frozen=True, eq=False)
class Solution:
    """A point, a dual point, the certificate computed from them by the problem alone, and how they were found.

    Attributes
    ----------
    point : mapping of names to arrays; the primal point (for a margin problem ``{"theta": (d,)}``).
    dual_point : mapping of names to arrays, or None: the problem can compute a lower bound from it and check its
        feasibility.
    certificate : `Certificate`: primal, lower bound, gap, residuals. A bound or gap that is not known is infinite,
        never 0.
    status : `Status`; its text says what to do next.
    trace : `Trace`.
    solver : name of the solver, with the reason it was picked where `solve` picked it.
    message : one sentence, where there is more to say than the status does.
    stored : whether the certificate was read from a file and not computed again (`load` without a problem).
    """

    point: Point
    dual_point: Point | None
    certificate: Certificate
    status: Status
    trace: Trace
    solver: str = ""
    message: str = ""
    stored: bool = False

    @property
    def primal(self) -> float:
        """The certified upper bound on the optimum, the allowance for rounding included."""
        return self.certificate.primal

    @property
    def lower_bound(self) -> float:
        """The certified lower bound on the optimum, the allowance for rounding taken off; -inf if there is none."""
        return self.certificate.lower_bound

    @property
    def value(self) -> float:
        """The objective at the point as it came, before any repair; of a changed formulation, what its solver claims.
        It is no bound: `primal` and `lower_bound` are."""
        return self.certificate.claimed

    @property
    def gap(self) -> float:
        """The certificate's relative gap (`convexstruct.core.certificates.relative_gap`); inf without a lower bound."""
        return self.certificate.gap

    @property
    def seconds(self) -> float:
        """Seconds of wall-clock time until the last iterate, without the last certificate, which is computed after
        it."""
        return self.trace.seconds[-1] if len(self.trace) else 0.0

    @property
    def iterations(self) -> int:
        """Rounds of the solver: how many iterates it yielded."""
        return self.trace.iteration[-1] if len(self.trace) else 0

    def __repr__(self) -> str:
        return (
            f"Solution({self.status.name}, {self.lower_bound:.8g} <= optimum <= {self.primal:.8g}, "
            f"gap {self.certificate.gap:.2g}, {self.iterations} iterations, {self.seconds:.2f} s, {self.solver}"
            f"{', as stored, not verified' if self.stored else ''})"
        )

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the solver's own bounds against time, and the certificate at their end (`convexstruct.plots.bounds`)."""
        from convexstruct.plots import bounds

        return bounds(self, axes=axes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the solution to one ``.npz`` file, whole or not at all; no pickle."""
        path = path_of("path", path)
        arrays: dict[str, NDArray[Any]] = {f"point/{k}": np.asarray(v) for k, v in self.point.items()}
        if self.dual_point is not None:
            arrays |= {f"dual_point/{k}": np.asarray(v) for k, v in self.dual_point.items()}
        head = {
            "format": FORMAT,
            "has_dual_point": self.dual_point is not None,
            "status": self.status.name,
            "solver": self.solver,
            "message": self.message,
            "certificate": {name: value for name, value in asdict(self.certificate).items() if value != ""},
            "trace": asdict(self.trace),
        }
        for name, array in arrays.items():
            if array.dtype.hasobject:
                raise ValueError(f"cannot save {name}: an array of Python objects would need pickle")
            if array.dtype.kind not in NUMBER_KINDS:
                raise ValueError(f"cannot save {name}: an array of {array.dtype}, wanted numbers")
        arrays["head"] = np.array(json.dumps(head, default=lambda scalar: scalar.item()))  # NumPy's numbers
        return write_whole(path, lambda file: np.savez_compressed(file, **arrays), "solution")  # type: ignore[arg-type]

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], problem: Problem | None = None, largest: int = LARGEST_SAVED
    ) -> Solution:
        """Read what `save` wrote, and certify it again if the problem is given.

        Parameters
        ----------
        path : the file. problem : the problem that it solves; the certificate is then computed from the problem and the
            points in the file. Without it the certificate is the one in the file, and ``stored`` is True.
        largest : bytes that the arrays may take when unpacked.

        Returns
        -------
        The solution. Where the file claims OPTIMAL and bounds that the problem does not confirm, its status is
        INACCURATE, and the message says so.

        Raises
        ------
        ValueError
            If the file is not a saved solution of a format that is known here, or its points do not fit the problem.
        FileNotFoundError
            If there is no such file.
        """
        found = read_saved(path, largest, "solution", _read)
        if problem is None:
            return found
        try:
            return _certified(found, problem)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"path: the solution in {path} does not fit the problem: {error}") from error


# -- what a file says --------------------------------------------------------------------------------------------------


def _read(arrays: dict[str, NDArray[Any]]) -> Solution:
    """The solution in an archive; ValueError, as the rest of a sentence that begins with "it", if it is none."""
    text = arrays.pop("head", None)
    if text is None or text.dtype.kind != "U" or text.shape != ():
        raise ValueError("has no head")
    head = json.loads(str(text))
    if not isinstance(head, dict) or "format" not in head:
        raise ValueError("has a head without a format")
    if head["format"] != FORMAT or isinstance(head["format"], bool):
        raise ValueError(f"has the format {head['format']!r}, this version reads {FORMAT}")
    kinds = {
        "format": int, "has_dual_point": bool, "status": str, "solver": str, "message": str, "certificate": dict,
        "trace": dict,
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(head.get(name), kind):
            raise ValueError(f"has {name} {head.get(name)!r:.60}, wanted a {kind.__name__}")
    if strange := [name for name in head if name not in kinds]:
        raise ValueError(f"has a head with {strange[0]!r:.60}, which is unknown")
    if head["status"] not in Status.__members__:
        raise ValueError(f"has the status {head['status']!r:.60}, wanted one of {', '.join(Status.__members__)}")
    points: dict[str, dict[str, NDArray[Any]]] = {"point": {}, "dual_point": {}}
    for key, array in arrays.items():
        part, _, name = key.partition("/")
        if part not in points or not name:
            raise ValueError(f"holds an array {key!r:.60}, wanted point/NAME or dual_point/NAME")
        if array.dtype.kind not in NUMBER_KINDS:
            raise ValueError(f"holds {key!r:.60} with entries of {array.dtype}, wanted numbers")
        points[part][name] = array
    if points["dual_point"] and not head["has_dual_point"]:
        raise ValueError("holds a dual point and says that it has none")
    status, certificate = Status[head["status"]], Certificate(**_fields(Certificate, head["certificate"]))
    trace = Trace(**_fields(Trace, head["trace"]))
    bounds = (certificate.primal, certificate.lower_bound)
    if any(map(math.isnan, (*bounds, certificate.gap, certificate.least))):
        raise ValueError("has a certificate whose bounds are no numbers")
    without_point = (Status.UNBOUNDED, Status.INFEASIBLE, Status.FAILED, Status.UNCERTIFIED)
    if not points["point"] and (
        status not in without_point or head["has_dual_point"] or bounds != (math.inf, -math.inf)
    ):
        raise ValueError(f"has no point, and claims {status.name} with {bounds[1]:.8g} <= optimum <= {bounds[0]:.8g}")
    gap = relative_gap(*bounds, certificate.least)
    if gap != certificate.gap and not abs(gap - certificate.gap) <= ROUNDING * max(1.0, abs(gap)):
        raise ValueError(f"has the gap {certificate.gap:.8g}, its bounds have {gap:.8g}")
    if status.solved and (gap >= 1 or upside_down(gap)):
        raise ValueError(f"claims OPTIMAL with the gap {gap:.2g}")
    lengths = {len(column) for column in (getattr(trace, each.name) for each in fields(trace)) if type(column) is list}
    if len(lengths) != 1:
        raise ValueError(f"has a trace whose columns have {', '.join(map(str, sorted(lengths)))} rows")
    dual = points["dual_point"] if head["has_dual_point"] else None
    return Solution(points["point"], dual, certificate, status, trace, head["solver"], head["message"], stored=True)


def _certified(found: Solution, problem: Problem) -> Solution:
    """The same points with the certificate computed by the problem; OPTIMAL becomes INACCURATE where that does not
    confirm the bounds in the file."""
    if not found.point:
        return replace(found, certificate=Certificate(math.inf, -math.inf, math.inf, math.inf), stored=False)
    certificate = certify(problem, found.point, found.dual_point)
    slack = ROUNDING * max(abs(found.primal), abs(found.lower_bound)) if math.isfinite(found.gap) else 0.0
    holds = certificate.primal <= found.primal + slack and certificate.lower_bound >= found.lower_bound - slack
    holds &= certificate.infeasibility <= found.certificate.infeasibility + ROUNDING
    status, message = found.status, found.message
    if not holds:
        message = (
            f"the file says {found.lower_bound:.10g} <= optimum <= {found.primal:.10g}, infeasible by "
            f"{found.certificate.infeasibility:.2g}; the problem does not confirm it"
        )
    if status.solved and not (holds and certificate.gap < 1 and not upside_down(certificate.gap)):
        status = Status.INACCURATE
    return replace(found, certificate=certificate, status=status, message=message, stored=False)


def _fields(kind: type[Any], found: dict[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass of numbers as read from a file, each converted to its type; ValueError if one does not
    fit."""
    known = {each.name: each for each in fields(kind)}
    for name in found:
        if name not in known:
            raise ValueError(f"has a {kind.__name__.lower()} with {name!r:.60}, which is unknown")
    for name, each in known.items():
        if name not in found and each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"has a {kind.__name__.lower()} without {name}")
    what = kind.__name__.lower()
    return {name: _value(str(known[name].type), value, f"{what}.{name}") for name, value in found.items()}


def _value(kind: str, value: Any, name: str) -> Any:
    outer, _, inner = kind.removesuffix("]").partition("[")
    if outer == "str" and isinstance(value, str):
        return value
    if outer == "list" and isinstance(value, list):
        return [_value(inner, each, name) for each in value]
    if outer in ("dict", "Mapping") and isinstance(value, dict):
        return {key: _value(inner.partition(", ")[2], each, f"{name}.{key:.40}") for key, each in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool):
        if outer == "float":
            return float(value)
        if outer == "int" and value == math.floor(value):
            return int(value)
    raise ValueError(f"has {name} {value!r:.60}, wanted a {kind}")
