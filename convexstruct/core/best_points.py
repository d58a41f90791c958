"""The best points that a solver has yielded, and their certificates: at the end of a run, and some on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Point
from convexstruct.core.certificates import Certificate, Problem, certify, certify_in_time, has_nan, joined
from convexstruct.core.iterate import Iterate
from convexstruct.deadline import DeadlinePassed, left, within, without
from convexstruct.tolerances import Profile
from convexstruct.validation.arguments import refuse

#: Intermediate certificates are made so that one can be returned where the last certificate is interrupted: the largest
#: share of the run's time spent on them, and the seconds before the first.
CERTIFYING_SHARE, FIRST_CERTIFICATE = 0.02, 5.0
#: The last certificate ends within so many seconds of the time limit, or within this share of it if that is more. Its
#: upper bound is given up after the share `UPPER_SHARE` of these seconds where a lower one is to follow, and both after
#: `BOTH_SHARE`; what a check of the deadline comes too late for has the rest.
GRACE_SECONDS, GRACE_SHARE, UPPER_SHARE, BOTH_SHARE = 2.0, 0.1, 0.5, 0.8


class Certified(NamedTuple):
    """Points and their certificate."""

    point: Point
    dual_point: Point | None
    certificate: Certificate


@dataclass
class BestPoints:
    """The best primal point and the best dual point so far, which need not come from one iterate.

    problem : with its examples in shards, if there is an executor. whole : the same in this process. primal,
    lower_bound : the solver's own bounds for the points. last : the dual point of the last iterate. earlier : the
    latest intermediate certificate. now : that of the points as they are, and the bounds that no time was left for.
    spent, longest : seconds that all of these and the longest one took.
    """

    problem: Problem
    whole: Problem
    wanted: Profile
    point: Point | None = None
    dual_point: Point | Callable[[], Point] | None = None
    last: Point | Callable[[], Point] | None = None
    primal: float = math.inf
    lower_bound: float = -math.inf
    earlier: Certified | None = None
    now: tuple[Certified, list[str]] | None = None
    spent: float = 0.0
    longest: float = 0.0

    def keep(self, iterate: Iterate) -> bool:
        """Keep the points that are better, of points without bounds the last; False if the iterate's point or bounds
        contain NaN. ValueError if it is no `Iterate`, or an array of its point does not hold real numbers."""
        if not isinstance(iterate, Iterate):
            refuse("what the solver yields", iterate, "an Iterate")
        for key, value in iterate.point.items():
            if np.asarray(value).dtype.kind not in "biuf":
                refuse(f"point[{key!r:.40}] of an iterate", value, "an array of real numbers")
        if has_nan(iterate.point) or math.isnan(iterate.primal) or math.isnan(iterate.lower_bound):
            return False
        self.last, self.now = iterate.dual_point, None
        if self.point is None or iterate.primal < self.primal or iterate.primal == self.primal == math.inf:
            self.point, self.primal = iterate.point, iterate.primal
        higher = iterate.lower_bound > self.lower_bound or iterate.lower_bound == self.lower_bound == -math.inf
        if iterate.dual_point is not None and (self.dual_point is None or higher):
            self.dual_point, self.lower_bound = iterate.dual_point, iterate.lower_bound
        return True

    def made(self) -> Point | None:
        """The dual point, which the solver may have left to be made when it is needed."""
        return self.dual_point() if callable(self.dual_point) else self.dual_point

    def certified(self, problem: Problem) -> Certified:
        """The points and their certificate, computed by ``problem``, one of the two."""
        assert self.point is not None
        with np.errstate(all="ignore"):
            dual_point = self.made()
            return Certified(self.point, dual_point, certify(problem, self.point, dual_point, self.wanted.floor))

    def certify_early(self, seconds: float, took: float, time_limit: float | None) -> None:
        """Certify the points, if the run has lasted long enough, ``seconds``, and enough time is left before the limit;
        or if the last round ``took`` so long that a certificate, if it takes as long, could not be made after another
        such round: then at once, and in place of the last one if it is not done by the limit."""
        room, grace = left(), UPPER_SHARE * _grace(time_limit)
        slow = not self.spent and took > grace and room < 2 * took - grace and self.problem is self.whole
        if not slow and (
            seconds < FIRST_CERTIFICATE
            or self.spent > CERTIFYING_SHARE * seconds
            or room < (2 * self.longest if self.spent else seconds)
        ):
            return
        begin = time.perf_counter()
        self.now = self._in_time(room, time_limit) if slow else (self.certified(self.problem), [])
        if not self.now[1]:
            self.earlier = self.now[0]
        taken = time.perf_counter() - begin
        self.spent, self.longest = self.spent + taken, max(self.longest, taken)

    def _in_time(self, room: float, time_limit: float | None) -> tuple[Certified, list[str]]:
        """The points and their certificate, computed in this process within the limit, ``room`` seconds from now, and
        the grace; and the bounds that no time was left for."""
        assert self.point is not None
        last = room + BOTH_SHARE * _grace(time_limit)
        until = last if self.dual_point is None else room + UPPER_SHARE * _grace(time_limit)
        with without(), np.errstate(all="ignore"):
            dual_point, certificate, missed = certify_in_time(
                self.whole, self.point, self.dual_point, self.wanted.floor, until, last
            )
        return Certified(self.point, dual_point, certificate), missed

    def room(self, time_limit: float) -> float:
        """How many seconds before the limit a run should end, so that a certificate that takes as long as the longest
        one is done in time."""
        return max(self.longest - _grace(time_limit), 0.0)

    def certify_last(self, time_limit: float | None, seconds: float) -> tuple[Certified, list[str]]:
        """The last certificate, after a run of ``seconds``, and the bounds that no time was left for: computed by the
        executor within the limit, or, where no time is left or a worker does not answer in time, in this process."""
        if self.now is not None:
            return self.now
        room = None if time_limit is None else max(time_limit - seconds, 0.0)
        if self.problem is not self.whole and room != 0:
            try:
                with within(room):
                    return self.certified(self.problem), []
            except DeadlinePassed:
                pass
        if room is not None:
            return self._in_time(room, time_limit)
        with without():
            return self.certified(self.whole), []

    def or_start(self, found: Certified, start: Certified, time_limit: float | None, seconds: float) -> Certified:
        """``found`` with the point, and the dual point, of the ``start`` of a run of ``seconds`` where its bound is
        better, if time is left to certify it. A run without lower bounds may minimise something else: it is left."""
        reached = self.wanted.met_by(found.certificate.gap, found.certificate.infeasibility)
        if reached or not math.isfinite(self.lower_bound):
            return found
        last = math.inf if time_limit is None else time_limit - seconds + BOTH_SHARE * _grace(time_limit)
        with without(), np.errstate(all="ignore"):
            made, other, _ = certify_in_time(self.whole, start.point, start.dual_point, self.wanted.floor, last, last)
        point, dual_point, certificate = found
        if other.primal < certificate.primal:
            point, certificate = start.point, joined(other, certificate)
        if other.lower_bound > certificate.lower_bound:
            dual_point, certificate = made, joined(certificate, other)
        return Certified(point, dual_point, certificate)


def _grace(time_limit: float | None) -> float:
    """Seconds by which the last certificate may exceed the limit."""
    return math.inf if time_limit is None else max(GRACE_SECONDS, GRACE_SHARE * time_limit)
