"""The accuracy profiles, and the only place where such numbers stand.

A *profile* says what "agrees" means: the relative gap between a certified upper and lower bound, what that is relative
to where the optimum is nearly 0, and how far a point may lie outside the feasible set. Nothing else in the project
writes such a number down; tests import from here too.
"""

from __future__ import annotations

from dataclasses import dataclass

from convexstruct.validation.arguments import number, refuse, text_of

#: A gap is measured against this share of the objective at the trivial point at least (w = 0, uniform distributions,
#: u = 0: `convexstruct.core.certificates.Problem.trivial_value`). An optimum below it is nearly 0 beside that
#: objective, and HIGH then asks for what is a few roundings of one term of it.
FLOOR = 1e-8
#: Two evaluations of one formula in double precision, relative. A bracket upside down by more is a contradiction.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Profile:
    """A named accuracy: gap = (primal - lower bound) / max(|primal|, |lower bound|, floor * value), where ``value`` is
    the objective at the problem's trivial point.

    gap : the greatest relative gap. feasibility : the greatest residual, as the problem measures it (absolute, or
    relative to what is constrained where that is large). floor : share of ``value`` below which the gap is absolute.
    """

    name: str
    gap: float
    feasibility: float
    floor: float = FLOOR

    def __post_init__(self) -> None:
        text_of("name", self.name)
        for field in ("gap", "feasibility", "floor"):
            object.__setattr__(self, field, number(field, getattr(self, field), least=0))

    def met_by(self, gap: float, infeasibility: float = 0.0) -> bool:
        """Whether a gap and an infeasibility are within the profile; never where the bracket is upside down."""
        return not upside_down(gap) and gap <= self.gap and infeasibility <= self.feasibility


#: The accuracies that users name; HIGH is the default of `solve`.
LOW = Profile("LOW", gap=1e-3, feasibility=1e-4)
MID = Profile("MID", gap=1e-4, feasibility=1e-5)
HIGH = Profile("HIGH", gap=1e-6, feasibility=1e-6)

PROFILES = {profile.name: profile for profile in (LOW, MID, HIGH)}

#: The same as `ROUNDING` where one of them is summed in single precision, relative to the largest entry.
SINGLE = 1e-6
#: A derivative against central differences, relative.
DERIVATIVE = 1e-5
#: How far a distribution handed in by a user may be from summing to one.
SUM_TO_ONE = 1e-6
#: A dual weight below minus this, or a sum of weights above one plus this, is an infeasible dual point, not rounding.
DUAL_ROUNDING = 1e-9
#: What a first-order solver (SCS) is asked for when it serves as a reference, absolute and relative.
REFERENCE_ACCURACY = 1e-8
#: How far the posteriors of the rescaled forward-backward may be from summing to one; beyond it another method is used.
POSTERIOR = 1e-9


def profile(name: str | float | Profile) -> Profile:
    """The profile called ``name``; a number is read as a relative gap, with the nearest profile's feasibility.
    ValueError if ``name`` is no profile's name and no number between 0 and 1."""
    wanted = f"one of {', '.join(PROFILES)} or a number between 0 and 1"
    if isinstance(name, Profile):
        return name
    if isinstance(name, str):
        if name.upper() in PROFILES:
            return PROFILES[name.upper()]
        try:
            name = float(name)
        except ValueError:
            refuse("tol", name, wanted)
    try:
        gap = number("tol", name, above=0, below=1)
    except ValueError:
        refuse("tol", name, wanted)
    feasibility = max((p.feasibility for p in PROFILES.values() if p.gap <= gap), default=HIGH.feasibility)
    return Profile(f"{gap:g}", gap=gap, feasibility=feasibility)


def upside_down(gap: float) -> bool:
    """Whether a lower bound lies above the upper bound by more than rounding: such a bracket certifies nothing."""
    return gap < -ROUNDING


def met(gap: float, feasibility: float = 0.0) -> str | None:
    """The name of the strictest profile that ``gap`` and ``feasibility`` meet, or None."""
    return next((each.name for each in (HIGH, MID, LOW) if each.met_by(gap, feasibility)), None)
