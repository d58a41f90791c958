r"""The formulations in CVXPY, one folder a family; this is where the sign conventions stand, once.

**Sections.** A family ``X`` has its problem in ``convexstruct.families.X`` and its formulations in
``convexstruct.models.X``. `FORMULATIONS` lists them all, by "family.name". A builder takes the problem and returns a
`Formulation`; constraint generation returns an object with the same ``reference`` and ``solve``.

**Sign conventions**, in every formulation:

* Problems are minimisations, p* is their optimum. A dual is stated as the paper states it, as a maximisation; its
  optimum is the same p*, with the same sign.
* A constraint g(x) <= 0 has a multiplier >= 0 that enters the Lagrangian with +, so that at the optimum
  grad f + multiplier' grad g = 0. CVXPY's ``dual_value`` follows this for minimisations, and for a maximisation of f it
  is the multiplier of the minimisation of -f.
* Margin constraints are a_k(s)'theta + b_k(s) <= eps_k with a_k(s) = counts_k(s) - counts_k(s*), b_k(s) = the loss;
  beta_k(s) >= 0 are their multipliers, mu = sum beta_k(s) a_k(s) and omega = sum beta_k(s) b_k(s) (6), v = c - mu. (An
  SVM's features usually stand the other way round, f(x, y*) - f(x, y); its family says so.)
* In a dual, theta is read from the multiplier of the equality that defines mu.
* eta w_k bounds the multipliers of example k; weights w_k are part of the problem, 1 in the papers.

**Accuracy.** What a general solver claims is a `Reference`. Its status decides nothing: the point and the dual witness
read back must certify the value claimed. Bounds come from `convexstruct.certify` alone.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from convexstruct.models.formulation import Entry, Equation, Formulation, Recovered, Reference, Sizes, equation

#: The families that have formulations: the folders here.
FOLDERS = tuple(entry.name for entry in pkgutil.iter_modules(__path__) if entry.ispkg)

#: Every formulation by "family.name".
FORMULATIONS: Mapping[str, Entry] = MappingProxyType(
    {
        f"{entry.family}.{entry.name}": entry
        for folder in FOLDERS
        for entry in importlib.import_module(f"{__name__}.{folder}").ENTRIES
    }
)


def __getattr__(name: str) -> Any:
    if name in FOLDERS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"convexstruct.models has no {name!r}, wanted one of {', '.join([*FOLDERS, *__all__])}")


__all__ = [
    "FORMULATIONS",
    "Entry",
    "Equation",
    "Formulation",
    "Recovered",
    "Reference",
    "Sizes",
    "equation",
]
