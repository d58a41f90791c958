"""The registry of systems: what the package can state, solve and reproduce, and where each is written down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class System:
    """One system of a paper.

    name : as it is called in prose. family : the file in problems/, models/ and verification/. paper, equations : where
    it stands. formulation : the names of its formulations in ``convexstruct.models.<family>.FORMULATIONS``.
    solvers : class names in ``convexstruct.solvers``. experiments : names that ``convexstruct reproduce`` takes.
    """

    name: str
    family: str
    paper: str
    equations: str
    formulation: tuple[str, ...]
    solvers: tuple[str, ...]
    experiments: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The system as JSON has it."""
        shown = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {**shown, "formulation": ", ".join(f"{self.family}.{name}" for name in self.formulation)}


PAPER_0 = "Yu, Bertsekas, Rousu: An efficient discriminative training method for generative models"
PAPER_1 = "Sarawagi: Training algorithms for structured learning"
PAPER_2 = "Saha, Zhang, Vishwanathan: Lower bounds for BMRM and faster rates for training SVMs"
PAPER_3 = "Xu, Wilkinson, Southey, Schuurmans: Discriminative unsupervised learning of structured predictors"
PAPER_4 = "Murphy: Stat 521A, lecture 25"

_FORMULATIONS = (
    "primal", "n_slack", "one_slack", "dual_beta", "dual", "entropy_dual", "proximal", "proximal_dual", "compact_dual",
)  # fmt: skip
_SOLVERS = (
    "EntropicProximal", "ProximalRSD", "ProximalBundle", "CoordinateWorkingSets", "OnlineWorkingSets",
    "MaximumLikelihood",
)  # fmt: skip
_RISK_FORMULATIONS = (
    "primal", "adjoint", "nesterov", "nesterov_adjoint", "svm", "svm_dual", "piecewise", "piecewise_adjoint", "bmrm",
    "bmrm_dual", "smoothed", "smoothed_dual",
)  # fmt: skip
#: Structural SVMs: what each system states, and what solves all of them.
_SVM_FORMULATIONS = ("n_slack", "dual_alpha", "dual_kernel", "n_slack_cuts", "one_slack_cuts")
_SVM_SOLVERS = (
    "TemperedPools", "RelaxedMargin", "NSlack", "OneSlack", "BlockFrankWolfe", "DualCoordinateAscent",
    "ExponentiatedGradient", "ExcessiveGap", "Subgradient", "Perceptron", "Mira",
)  # fmt: skip
_RISK_SOLVERS = (
    "SemismoothNewton", "QpBMRM", "LsBMRM", "Pragam", "PragamB", "PegasosN", "Pegasos1", "DualCoordinateDescent",
)  # fmt: skip

SYSTEMS: tuple[System, ...] = (
    System(
        name="discriminative training of a hidden Markov model",
        family="generative_margin",
        paper=PAPER_0,
        equations="(2)-(26)",
        formulation=_FORMULATIONS,
        solvers=_SOLVERS,
        experiments=("tracking", "protein-hmm", "online-variant"),
    ),
    System(
        name="discriminative training of a Bayesian network",
        family="generative_margin",
        paper=PAPER_0,
        equations="(2)-(26)",
        formulation=_FORMULATIONS,
        solvers=_SOLVERS,
        experiments=("connect4",),
    ),
    System(
        name="support vector machine",
        family="regularized_risk",
        paper=PAPER_2,
        equations="(1)-(26)",
        formulation=_RISK_FORMULATIONS,
        solvers=_RISK_SOLVERS,
        experiments=("svm-solvers",),
    ),
    System(
        name="regularized risk with piecewise linear losses",
        family="regularized_risk",
        paper=PAPER_2,
        equations="(1)-(19)",
        formulation=_RISK_FORMULATIONS,
        solvers=_RISK_SOLVERS,
        experiments=("hadamard",),
    ),
    System(
        name="structural support vector machine",
        family="structured_svm",
        paper=PAPER_1,
        equations="(P), (D), cutting planes",
        formulation=_SVM_FORMULATIONS,
        solvers=_SVM_SOLVERS,
        experiments=("surrogates", "cutting-planes"),
    ),
    System(
        name="max-margin Markov network",
        family="structured_svm",
        paper=PAPER_3,
        equations="(5), (8)",
        formulation=("marginals", "matrix_form", "local_relaxation"),
        solvers=_SVM_SOLVERS,
        experiments=("ocr", "scene", "snakes"),
    ),
    System(
        name="hidden Markov support vector machine",
        family="structured_svm",
        paper=PAPER_4,
        equations="Simple-Max-Margin, Slack variables",
        formulation=("hm_svm", "hard_margin", "hard_margin_cuts"),
        solvers=_SVM_SOLVERS,
    ),
    System(
        name="associative Markov network",
        family="structured_svm",
        paper="Taskar, Chatalbashev, Koller: Learning associative Markov networks; named in paper 4",
        equations="(4)-(6)",
        formulation=("associative",),
        solvers=_SVM_SOLVERS,
    ),
    System(
        name="Gaussian process sequence labelling",
        family="gaussian_process",
        paper=PAPER_2,
        equations="(32)",
        formulation=("primal", "dual", "compact_primal", "compact_dual"),
        solvers=("FunctionSpaceLBFGS", "FunctionalGradient"),
        experiments=("gp-sequence",),
    ),
    System(
        name="projection onto a box cut by one equality",
        family="projection",
        paper=PAPER_2,
        equations="appendix B, (27)-(30)",
        formulation=("box", "box_dual"),
        solvers=("BreakpointSearch",),
        experiments=("projection",),
    ),
    System(
        name="projection onto the local marginal polytope",
        family="projection",
        paper=PAPER_2,
        equations="appendix E.3, (33)-(38)",
        formulation=("tables", "tables_dual", "labellings"),
        solvers=("MarginalAscent", "BlockAscent"),
    ),
)
