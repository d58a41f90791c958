r"""The formulations in CVXPY, one folder for each family, and the sign conventions that they share.

**Sections.** A family ``X`` has its problem in ``convexstruct.families.X`` and its formulations in
``convexstruct.models.X``. `FORMULATIONS` lists them all, by "family.name". A builder takes the problem and returns a
`Formulation`; constraint generation returns an object with the same ``reference`` and ``solve``.

**Sign conventions**, in every formulation:

* Problems are minimisations, p* is their optimum. A dual is stated as the paper states it, as a maximisation; its
  optimum is the same p*, with the same sign.
* A constraint g(x) <= 0 has a multiplier >= 0 that enters the Lagrangian with +, so that at the optimum
  grad f + multiplier' grad g = 0. CVXPY's ``dual_value`` follows this for minimisations; for a maximisation of f it is
  the multiplier of the minimisation of -f.
* Margin constraints are a_k(s)'theta + b_k(s) <= eps_k with a_k(s) = counts_k(s) - counts_k(s*), b_k(s) = the loss;
  beta_k(s) >= 0 are their multipliers, mu = sum beta_k(s) a_k(s) and omega = sum beta_k(s) b_k(s) (6), v = c - mu.
  (Structural SVMs usually have the opposite difference, f(x, y*) - f(x, y), as their family states.)
* In a dual, theta is read from the multiplier of the equality that defines mu.
* The multipliers of example k sum to at most eta w_k; weights w_k are part of the problem, 1 in the papers.

**Accuracy.** The answer of a general solver is reported as a `Reference`. The status that the solver reports is not
trusted: the point and the dual witness read back from its answer must certify the value that it claims, by the bounds
of `convexstruct.certify`.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from convexstruct.models.entries import ENTRIES, Entry
from convexstruct.models.formulation import Equation, Formulation, Recovered, Reference, Sizes, equation
from convexstruct.validation.arguments import Named, no_attribute

#: The families that have formulations: the folders here.
FOLDERS = tuple(entry.name for entry in pkgutil.iter_modules(__path__) if entry.ispkg)

for _folder in FOLDERS:
    importlib.import_module(f"{__name__}.{_folder}")

#: Every formulation by "family.name".
FORMULATIONS: Mapping[str, Entry] = MappingProxyType(
    Named("formulation", {f"{entry.family}.{entry.name}": entry for entry in ENTRIES})
)


def __getattr__(name: str) -> Any:
    if name in FOLDERS:
        return importlib.import_module(f"{__name__}.{name}")
    no_attribute(__name__, [*FOLDERS, *__all__], name)


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
