"""The two weights of an objective, lam of its penalty and C of its losses, read in any of the papers' conventions."""

from __future__ import annotations

from dataclasses import dataclass

from convexstruct.validation.arguments import number


@dataclass(frozen=True)
class Scale:
    """P(w) = lam/2 |w|^2 + C sum_i omega_i loss_i(w)."""

    lam: float
    C: float

    @classmethod
    def read(cls, n_examples: int, free: bool = False, **given: float | None) -> Scale:
        """Exactly one of

            C       1/2 |w|^2 + C sum_i loss_i                 (lam = 1)
            C_mean  1/2 |w|^2 + (C_mean / N) sum_i loss_i      (paper 1)
            lam     lam/2 |w|^2 + (1/N) sum_i loss_i           (paper 2)
            beta    beta/2 |w|^2 + sum_i loss_i                (paper 3)

        free : whether none may be given either; there is no penalty then (lam = 0, C = 1).

        Raises
        ------
        ValueError
            If not exactly one is given, or it is not positive and finite.
        """
        named = {name: value for name, value in given.items() if value is not None}
        if free and not named:
            return cls(0.0, 1.0)
        if len(named) != 1:
            came = ", ".join(named) or "none"
            raise ValueError(f"the scale needs exactly one of C, C_mean, lam, beta, got {came}")
        ((name, value),) = named.items()
        given_one = number(name, value, above=0)
        return {
            "C": cls(1.0, given_one),
            "C_mean": cls(1.0, given_one / n_examples),
            "lam": cls(given_one, 1.0 / n_examples),
            "beta": cls(given_one, 1.0),
        }[name]
