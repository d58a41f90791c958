"""convexstruct: convex structured prediction, stated declaratively, solved fast, and certified.

    import convexstruct as cs

    solution = cs.solve(problem)               # the fast path; bounds are certified, not claimed
    cs.certify(problem, theta)                 # a proved lower and upper bound at any point
    cs.verify()                                # every built-in case, reference against fast path
    cs.verify(my_solver, on="generative_margin")  # anyone's solver against the stored optima

Every name is imported when it is first used. `cs.models` (the formulations) needs CVXPY and `cs.estimators`
(scikit-learn's interface) needs scikit-learn; everything else does without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convexstruct import datasets, estimators, experiments, models, plots, solvers, verification
    from convexstruct.core.certificates import Certificate, certify
    from convexstruct.core.driver import solve
    from convexstruct.core.solution import Solution, Status
    from convexstruct.core.trace import Trace
    from convexstruct.entities import EntityReport, entities_of, entity_f1, entity_report
    from convexstruct.families.energy_network import ConvexEnergyNetwork, EnergyInference, UnrolledEnergyNetwork
    from convexstruct.families.gaussian_process import GaussianProcessSequences
    from convexstruct.families.generative_margin import GenerativeMargin
    from convexstruct.families.log_linear import (
        ApproximateField,
        ConditionalRandomField,
        HiddenField,
        HiddenMarkov,
        MarkovRandomField,
        PseudoLikelihood,
    )
    from convexstruct.families.projection import BoxProjection, MarginalProjection
    from convexstruct.families.regularized_risk import RegularizedRisk
    from convexstruct.families.structured_svm import LatentSVM, StructuredSVM
    from convexstruct.families.unsupervised_margin import (
        MarginLabelling,
        PermutationInvariantMargin,
        UnsupervisedMargin,
    )
    from convexstruct.features.graphs.factors import factors_of_features, read_factors, tabular_factors
    from convexstruct.graphs import image_graph
    from convexstruct.inference.best_labelling import Labelling, best_labelling
    from convexstruct.tolerances import HIGH, LOW, MID, Profile
    from convexstruct.verification import check, verify

__all__ = [
    "HIGH",
    "LOW",
    "MID",
    "ApproximateField",
    "BoxProjection",
    "Certificate",
    "ConditionalRandomField",
    "ConvexEnergyNetwork",
    "EnergyInference",
    "EntityReport",
    "GaussianProcessSequences",
    "GenerativeMargin",
    "HiddenField",
    "HiddenMarkov",
    "Labelling",
    "LatentSVM",
    "MarginLabelling",
    "MarginalProjection",
    "MarkovRandomField",
    "PermutationInvariantMargin",
    "Profile",
    "PseudoLikelihood",
    "RegularizedRisk",
    "Solution",
    "Status",
    "StructuredSVM",
    "Trace",
    "UnrolledEnergyNetwork",
    "UnsupervisedMargin",
    "best_labelling",
    "certify",
    "check",
    "datasets",
    "entities_of",
    "entity_f1",
    "entity_report",
    "estimators",
    "experiments",
    "factors_of_features",
    "image_graph",
    "models",
    "plots",
    "read_factors",
    "solve",
    "solvers",
    "tabular_factors",
    "verification",
    "verify",
]

#: Where each public name is, below this package. Each is imported when it is first used, with what it needs and no
#: more: a family's problem without the other families, CVXPY, scikit-learn or matplotlib.
_HOMES = {
    "core.certificates": ("Certificate", "certify"),
    "core.driver": ("solve",),
    "core.solution": ("Solution", "Status"),
    "core.trace": ("Trace",),
    "entities": ("EntityReport", "entities_of", "entity_f1", "entity_report"),
    "families.energy_network": ("ConvexEnergyNetwork", "EnergyInference", "UnrolledEnergyNetwork"),
    "families.gaussian_process": ("GaussianProcessSequences",),
    "families.generative_margin": ("GenerativeMargin",),
    "families.log_linear": (
        "ApproximateField",
        "ConditionalRandomField",
        "HiddenField",
        "HiddenMarkov",
        "MarkovRandomField",
        "PseudoLikelihood",
    ),
    "families.projection": ("BoxProjection", "MarginalProjection"),
    "families.regularized_risk": ("RegularizedRisk",),
    "families.structured_svm": ("LatentSVM", "StructuredSVM"),
    "families.unsupervised_margin": ("MarginLabelling", "PermutationInvariantMargin", "UnsupervisedMargin"),
    "features.graphs.factors": ("factors_of_features", "read_factors", "tabular_factors"),
    "graphs": ("image_graph",),
    "inference.best_labelling": ("Labelling", "best_labelling"),
    "tolerances": ("HIGH", "LOW", "MID", "Profile"),
    "verification": ("check", "verify"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("datasets", "estimators", "experiments", "models", "plots", "solvers", "verification")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"convexstruct.{name}")
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"convexstruct.{_HOME_OF[name]}"), name)

    from convexstruct.validation.arguments import no_attribute  # here, because it imports NumPy

    no_attribute(__name__, __all__, name)


def __dir__() -> list[str]:
    return __all__
