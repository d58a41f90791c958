"""The accuracy profiles, and the only place where such numbers stand.

A *profile* says what "agrees" means: the relative gap between a certified upper and lower bound, and how far a point
may lie outside the feasible set. Nothing else in the project writes such a number down; tests import from here too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """A named accuracy: ``gap``, relative as `certificates.relative_gap` is, and ``feasibility``, absolute."""

    name: str
    gap: float
    feasibility: float


LOW = Profile("LOW", gap=1e-3, feasibility=1e-4)
MID = Profile("MID", gap=1e-4, feasibility=1e-5)
HIGH = Profile("HIGH", gap=1e-6, feasibility=1e-6)

PROFILES = {profile.name: profile for profile in (LOW, MID, HIGH)}

#: Two evaluations of one formula in double precision, relative.
ROUNDING = 1e-9
#: The same where one of them is summed in single precision, relative to the largest entry.
SINGLE = 1e-6
#: A derivative against central differences, relative.
DERIVATIVE = 1e-5
#: How far a distribution handed in by a user may be from summing to one.
SUM_TO_ONE = 1e-6
#: A dual weight below minus this, or a sum of weights above one plus this, is an infeasible dual point, not rounding.
DUAL_ROUNDING = 1e-9
#: What a first-order solver (SCS) is asked for when it serves as a reference, absolute and relative.
REFERENCE_ACCURACY = 1e-8
#: How far the posteriors of the rescaled forward-backward may be from summing to one before it is not trusted.
POSTERIOR = 1e-9


def profile(name: str | float | Profile) -> Profile:
    """The profile called ``name``; a number is read as a relative gap, with the nearest profile's feasibility.

    Raises
    ------
    ValueError
        If ``name`` is no profile's name and no number between 0 and 1.
    """
    if isinstance(name, Profile):
        return name
    if isinstance(name, str):
        if name.upper() in PROFILES:
            return PROFILES[name.upper()]
        try:
            name = float(name)
        except ValueError:
            raise ValueError(
                f"tol must be one of {', '.join(PROFILES)} or a number between 0 and 1, got {name!r}"
            ) from None
    if not 0 < name < 1:
        raise ValueError(f"tol must be one of {', '.join(PROFILES)} or a number between 0 and 1, got {name!r}")
    feasibility = max((p.feasibility for p in PROFILES.values() if p.gap <= name), default=HIGH.feasibility)
    return Profile(f"{name:g}", gap=float(name), feasibility=feasibility)


def met(gap: float, feasibility: float = 0.0) -> str | None:
    """The name of the strictest profile that ``gap`` and ``feasibility`` meet, or None."""
    for candidate in (HIGH, MID, LOW):
        if gap <= candidate.gap and feasibility <= candidate.feasibility:
            return candidate.name
    return None
