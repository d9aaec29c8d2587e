"""The declaration that an estimator states, and its answer to each two-class problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Matrix, Vec
from ucm.errors import DataError, ParameterError, brief
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective, multiplied
from ucm.language.penalties import L1, L2
from ucm.language.terms import Loss, Penalty

Estimator = Any
"""An estimator of any library, fitted or not, whose class is known by its name and attributes."""
Options = Mapping[str, Any]
"""The kernel options of `ucm.compile`, or parameters of a model that its file does not hold."""


@dataclass(frozen=True)
class Statement:
    """The problem that the parameters of an estimator state, for each of its two-class problems.

    model : the declaration; its loss is a sum, and if `mean` the mean loss of the samples is meant
    mean : True if the loss of the estimator is divided by the number of samples
    class_weight : as the estimator has it
    rest : True if each sample has the weight of its own class, False if all samples of the rest have weight 1
    weighted : True if "balanced" counts the sample weights
    kernel : the kernel options of `ucm.compile`
    note : a clause on the fit, where it is of another problem; else ""
    """

    model: Objective | UncertaintySet
    mean: bool = False
    class_weight: object = None
    rest: bool = True
    weighted: bool = False
    kernel: Options = field(default_factory=dict)
    note: str = ""

    def declared(self, m: float) -> Objective | UncertaintySet:
        """Return the declaration for m samples."""
        if not self.mean or not isinstance(self.model, Objective):
            return self.model
        mean = multiplied(1.0 / m, self.model.loss) + self.model.penalty
        return mean.with_intercept(self.model.intercept, self.model.scaling)


@dataclass(frozen=True)
class Answer:
    """The answer to one two-class problem: the class at positive scores, the other one (-1: all others).

    Attributes
    ----------
    w : (n,) or None where a kernel hides it
    coefficients : (m,) c of all samples with `w = sum_i c_i phi(x_i)`, or None
    multipliers : (m,) of the samples, `y_i c_i` where not given; None for an answer without
    """

    positive: int
    negative: int
    b: float
    w: Vec | None = None
    coefficients: Vec | None = None
    multipliers: Vec | None = None

    @property
    def unknowns(self) -> tuple[str, Vec]:
        """The name and the value of the argument of `Plan.certify` for w or its coefficients."""
        if self.w is not None:
            return "w", self.w
        return "coefficients", np.zeros(0) if self.coefficients is None else self.coefficients

    def among(self, rows: NDArray[np.intp], m: int) -> Answer:
        """Return the answer with the coefficients of some of m samples, and 0 for the others."""
        c = np.zeros(m)
        c[rows] = self.coefficients
        return replace(self, coefficients=c)

    def over(self, rows: NDArray[np.intp]) -> Answer:
        """Return the answer over the samples of its problem alone."""
        c, a = (None if v is None else v[rows] for v in (self.coefficients, self.multipliers))
        return replace(self, coefficients=c, multipliers=a)


@dataclass(frozen=True)
class Family:
    """Estimators that are read alike.

    names : of the classes; a subclass is read as its base class
    attributes : the parameters that tell the class from one of the same name elsewhere
    state : returns the `Statement` of an estimator, fitted or not
    answers : returns the answers of a fitted estimator over the samples X
    fitted : an attribute that a fit sets
    drops : True if the fit leaves out samples of weight 0, so that its indices are of the others
    """

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    state: Callable[[Estimator], Statement]
    answers: Callable[[Estimator, Matrix], list[Answer]]
    fitted: str = "coef_"
    drops: bool = False

    def reads(self, estimator: object) -> bool:
        """True if the class has one of the names, and the estimator all the attributes."""
        names = {cls.__name__ for cls in type(estimator).__mro__}
        return bool(names & {*self.names}) and all(hasattr(estimator, name) for name in self.attributes)


def linear_answers(estimator: Estimator, X: Matrix) -> list[Answer]:
    """Return the rows of `coef_` and `intercept_`: of two classes one row, positive for `classes_[1]`."""
    W = np.atleast_2d(dense(estimator.coef_))
    if W.shape[1] != X.shape[1]:
        raise DataError(
            f"audit: X: expected the {W.shape[1]} features of coef_, got {X.shape[1]}; give the samples of "
            "the fit, with the transforms that stood before it"
        )
    b = np.broadcast_to(np.ravel(dense(estimator.intercept_)), W.shape[0])
    pairs = [(1, 0)] if len(W) == 1 else [(i, -1) for i in range(len(W))]
    return [Answer(*pair, float(b[k]), W[k]) for k, pair in enumerate(pairs)]


def dense(x: Any) -> NDArray[np.float64]:
    """Return an array in double precision, of a NumPy-like or sparse one."""
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


def elastic_net(strength: float, l1_ratio: float) -> Penalty:
    """Return `strength * (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||_2^2)`, without terms of factor 0."""
    factors = (strength * l1_ratio, L1()), (strength * (1.0 - l1_ratio) / 2.0, L2())
    terms: list[Penalty] = [c * R for c, R in factors if c > 0.0]
    return reduce(lambda R, S: R + S, terms) if terms else 0.0 * L2()


def objective(
    factor: float, loss: Loss, penalty: Penalty, fit_intercept: bool, scaling: float | None = None
) -> Any:
    """Return `factor * loss + penalty` with a free intercept, or one penalised by a scaling."""
    total = loss if factor == 1.0 else factor * loss
    kind = None if not fit_intercept else "free" if scaling is None else "penalised"
    return (total + penalty).with_intercept(kind, 1.0 if scaling is None or kind is None else float(scaling))


def no_declaration(estimator: object, what: str, why: str) -> ParameterError:
    """Return the error for a parameter of an estimator whose problem has no declaration."""
    return ParameterError(
        f"audit: {type(estimator).__name__}: {what}: {why}; declare what you mean, and certify the answer by "
        "ucm.compile(model, X, y).certify(w=, b=)"
    )


def one_of(estimator: object, name: str, known: Mapping[Any, Any]) -> Any:
    """Return the entry of a table for the value of a parameter; refuse a value that is not in it."""
    given = getattr(estimator, name)
    try:
        return known[given]
    except (KeyError, TypeError):
        names = ", ".join(map(repr, known))
        why = f"expected one of {names}, whose problems have declarations, got {brief(given)}"
        raise no_declaration(estimator, name, why) from None
