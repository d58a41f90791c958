r"""The formulations in CVXPY, one family a file; this is where the sign conventions stand, once.

**Sections.** A family ``X`` has its problem in ``convexstruct.problems.X`` and its formulations in
``convexstruct.models.X`` (further files ``X_...`` where one would be too long). `FORMULATIONS` lists them all, by
"family.name". A builder takes the problem and returns a `Formulation`; constraint generation returns an object with
the same ``reference`` and ``solve``.

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

from collections.abc import Mapping
from types import MappingProxyType

from convexstruct.models import (
    gaussian_process,
    gaussian_process_compact,
    generative_margin,
    generative_margin_compact,
    generative_margin_cuts,
    generative_margin_proximal,
    projection,
    projection_tables,
    regularized_risk,
    regularized_risk_planes,
    regularized_risk_smoothed,
    regularized_risk_svm,
    structured_svm,
    structured_svm_associative,
    structured_svm_cuts,
    structured_svm_gram,
    structured_svm_hard,
    structured_svm_marginals,
)
from convexstruct.models.formulation import Entry, Equation, Formulation, Recovered, Reference, Sizes, equation

#: Every formulation by "family.name".
FORMULATIONS: Mapping[str, Entry] = MappingProxyType(
    {
        f"{entry.family}.{entry.name}": entry
        for module in (
            gaussian_process,
            gaussian_process_compact,
            generative_margin,
            generative_margin_cuts,
            generative_margin_proximal,
            generative_margin_compact,
            projection,
            projection_tables,
            regularized_risk,
            regularized_risk_svm,
            regularized_risk_planes,
            regularized_risk_smoothed,
            structured_svm,
            structured_svm_hard,
            structured_svm_marginals,
            structured_svm_cuts,
            structured_svm_gram,
            structured_svm_associative,
        )
        for entry in module.ENTRIES
    }
)

__all__ = [
    "FORMULATIONS",
    "Entry",
    "Equation",
    "Formulation",
    "Recovered",
    "Reference",
    "Sizes",
    "equation",
    "gaussian_process",
    "gaussian_process_compact",
    "generative_margin",
    "generative_margin_compact",
    "generative_margin_cuts",
    "generative_margin_proximal",
    "projection",
    "projection_tables",
    "regularized_risk",
    "regularized_risk_planes",
    "regularized_risk_smoothed",
    "regularized_risk_svm",
    "structured_svm",
    "structured_svm_associative",
    "structured_svm_cuts",
    "structured_svm_gram",
    "structured_svm_hard",
    "structured_svm_marginals",
]
