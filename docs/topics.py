"""The reference by topic: every public name once. A new name is one word in one of these lists."""

from __future__ import annotations

from types import ModuleType

import ucm
from ucm import datasets, extend, models, plot, solvers, testing

TOPICS: dict[str, tuple[str, dict[str, str]]] = {
    "solve": (
        "Declare, solve, prove",
        {
            "From a declaration to an answer": "compile solve path Path Plan Solution",
            "Certificates and comparisons": "Certificate admissible Interval Guarantees support",
            "CVXPY in both directions": "worst_case to_cvxpy_source",
            "Parameters": "Param per_sample",
            "Files": "to_json from_json",
        },
    ),
    "sets": (
        "Uncertainty sets",
        {
            "Samples": "pos neg signed Points PooledMean",
            "Sets in feature space": "Point Ball Ellipsoid Hull ReducedHull AffineImage ConvexUnion",
            "Ambiguity sets": "CVaR SpectralRisk ChiSquare TotalVariation Wasserstein Gelbrich",
            "Models": "RobustMargin",
        },
    ),
    "domains": (
        "Domains of weights",
        {"Domains": "Simplex CappedSimplex NormBall KLBall ChiSquareBall LossBall Box CvxpyDomain"},
    ),
    "objectives": (
        "Losses and penalties",
        {
            "Losses of the margin": "Hinge SquaredHinge HuberHinge LeastSquares Logistic Exponential Ramp",
            "Worst means": "WorstMean WassersteinObjective",
            "Robust samples": "Robust FeatureDeletion",
            "Convex penalties": "L2 L1 LInf Lp Norm ElasticNet GroupLasso Quadratic KSupport",
            "Constraints": "LinearConstraint Bounds NonNegative Cardinality",
            "Folded concave penalties": "CappedL1 ExpL0 MCP SCAD GroupMCP",
            "Sums": "Objective",
        },
    ),
    "models": ("Named models", {"The papers' classifiers": "models.*"}),
    "estimators": (
        "Estimators",
        {
            "scikit-learn": "Classifier ClassifierCV",
            "Comparison of models": "compare Comparison Compared",
            "Answers of other libraries": "audit from_estimator Audit AuditedProblem",
        },
    ),
    "plot": ("Displays", {"Pictures": "plot.*"}),
    "solvers": ("Solvers", {"By name or as an instance": "solvers.*"}),
    "data": (
        "Data sets",
        {
            "Loading": "datasets.*",
            "Out-of-core data": "open_rows",
        },
    ),
    "testing": ("Checks for your own classes", {"Laws": "testing.*"}),
    "extend": (
        "Contracts",
        {"What an extension imports": "extend.*"},
    ),
    "errors": (
        "Errors",
        {
            "Errors": "UCMError CompositionError ParameterError DataError EmptySetError SolverError "
            "MissingExtraError",
            "Warnings": "ConvergenceWarning",
            "Reports of defects": "show_versions",
        },
    ),
}
"""File, title, and sections of names; `module.*` stands for all that a module exports."""

MODULES = {
    "models": models,
    "datasets": datasets,
    "extend": extend,
    "plot": plot,
    "solvers": solvers,
    "testing": testing,
}


def expanded(words: str) -> list[str]:
    """The names of one section, dotted from `ucm` on."""
    found = []
    for word in words.split():
        folder = word.removesuffix(".*")
        found += [f"{folder}.{n}" for n in MODULES[folder].__all__] if folder != word else [word]
    return found


def listed() -> list[str]:
    """All names of the reference, in order."""
    return [n for _, parts in TOPICS.values() for words in parts.values() for n in expanded(words)]


def public() -> list[str]:
    """All names that the package exports, those of its modules with their module."""
    own = [n for n in [*ucm.__all__, "compile"] if not isinstance(getattr(ucm, n), ModuleType)]
    return own + [f"{folder}.{n}" for folder, module in MODULES.items() for n in module.__all__]


def pages() -> dict[str, str]:
    """The pages of the reference in reStructuredText, by file."""
    tree = "\n   ".join(TOPICS)
    index = f"{_title('Reference')}\n\n.. toctree::\n   :maxdepth: 2\n\n   {tree}\n"
    texts = {"index": index}
    for file, (title, parts) in TOPICS.items():
        lines = [_title(title), "", ".. currentmodule:: ucm", ""]
        for section, words in parts.items():
            names = "\n   ".join(expanded(words))
            lines += [section, "-" * len(section), ""] if len(parts) > 1 else []
            lines += [f".. autosummary::\n   :toctree: names\n   :nosignatures:\n\n   {names}", ""]
        texts[file] = "\n".join(lines)
    return texts


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}"
