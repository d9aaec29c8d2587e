"""A modeling language for classifiers over convex solvers.

Declare an uncertainty set as mathematics, compile it against data, get a certified classifier.
"""

from __future__ import annotations

import lazy_loader as _lazy

__version__ = "0.1.0"

_getattr, _dir, _ = _lazy.attach(
    __name__,
    submodules=["datasets", "domains", "models", "solvers", "testing"],
    submod_attrs={
        "compiler.plan": ["Plan", "compile", "solve"],
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
        "expression": ["Param", "from_json", "to_json"],
        "language.losses": ["Exponential", "Hinge", "Logistic", "SquaredHinge"],
        "language.objective": ["RobustMargin"],
        "language.samples": ["neg", "pos", "signed"],
        "language.sets": ["Ball", "Ellipsoid", "Hull", "Image", "Point", "ReducedHull"],
        "solution": ["Certificate", "Solution", "Stats"],
    },
)
__all__ = sorted(name for name in _ if name != "compile")  # `import *` keeps the builtin


def __getattr__(name: str) -> object:
    return _getattr(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "compile"])
