"""A modeling language for classifiers over convex solvers.

Declare an uncertainty set as mathematics, compile it against data, get a certified classifier.
"""

from __future__ import annotations

import lazy_loader as _lazy

__version__ = "0.1.0"

_getattr, _, _names = _lazy.attach(
    __name__,
    submodules=["datasets", "domains", "models", "solvers", "terms", "testing"],
    submod_attrs={
        "compiler.compile": ["compile", "solve"],
        "compiler.plan": ["Plan"],
        "contracts": ["Domain", "Leveled", "Projectable", "SemiSmooth", "UncertaintySet"],
        "domains": ["Box", "CappedSimplex", "KLBall", "LossBall", "NormBall", "Product", "Simplex"],
        "errors": [
            "CompositionError",
            "ConvergenceWarning",
            "DataError",
            "EmptySetError",
            "ParameterError",
            "SolverError",
            "UCMError",
        ],
        "estimators.classifier": ["Classifier"],
        "evidence.admissible": ["Interval", "admissible"],
        "evidence.verify": ["Verification"],
        "expression": ["Param"],
        "language.losses": ["Exponential", "Hinge", "Logistic", "Ramp", "SquaredHinge"],
        "language.objective": ["RobustMargin"],
        "language.penalties": [
            "CappedL1",
            "ElasticNet",
            "ExpL0",
            "L1",
            "L2",
            "LInf",
            "Lp",
            "MCP",
            "SCAD",
        ],
        "language.regularised": ["Objective"],
        "language.samples": ["neg", "pos", "signed"],
        "language.sets": ["Ball", "Ellipsoid", "Hull", "Image", "Point", "ReducedHull"],
        "serialization": ["from_json", "to_json"],
        "solution": ["Certificate", "Solution", "Stats"],
    },
)
__all__ = [name for name in _names if name != "compile"]  # `import *` keeps the builtin


def __getattr__(name: str) -> object:
    return _getattr(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "compile"])
