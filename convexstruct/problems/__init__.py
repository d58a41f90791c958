"""What is solved: validated data, primal value, dual value; one family a file.

Every problem is a minimisation and a frozen dataclass. It validates once, at the door, and evaluates itself exactly.
See `convexstruct.certificates.Problem` for what each must offer.
"""

from convexstruct.problems.gaussian_process import GaussianProcessSequences
from convexstruct.problems.generative_margin import GenerativeMargin
from convexstruct.problems.projection import BoxProjection
from convexstruct.problems.projection_tables import MarginalProjection
from convexstruct.problems.regularized_risk import RegularizedRisk
from convexstruct.problems.structured_svm import StructuredSVM

__all__ = [
    "BoxProjection",
    "GaussianProcessSequences",
    "GenerativeMargin",
    "MarginalProjection",
    "RegularizedRisk",
    "StructuredSVM",
]
