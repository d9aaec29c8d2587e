"""Figures of solutions, and certificates of the answers of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row
from ucm.data.bound_data import bind
from ucm.data.gram import Gram
from ucm.data.linear_map import Vec
from ucm.data.source import RowSource
from ucm.estimators.out_of_core import scored
from ucm.evidence.certificate import certify
from ucm.forms.solution import Solution
from ucm.language.models import nu_svm
from ucm.language.robust import as_model

__all__ = [
    "GAP",
    "accuracy",
    "figures",
    "matched_C",
    "sample_weights",
    "weights_gap",
]

GAP = 1e-6  # relative, at most, of every certificate and between two optima


def figures(solution: Solution, names: str) -> Row:
    """Return the named figures of a solution, in this order."""
    stats, certificate = solution.stats, solution.certificate
    known = {
        "status": solution.status,
        "objective": solution.objective,
        "solver": stats.solver,
        "gap": abs(certificate.relative_gap),
        "violation": certificate.violation,
        "iterations": stats.iterations,
        "passes": stats.passes,
        "systems": stats.systems,
        "forming": stats.forming,
        "both": stats.passes + stats.forming,
        "seconds": stats.setup_time + stats.solve_time,
    }
    return {name: known[name] for name in names.split()}


def accuracy(solution: Solution, X: Any, y: NDArray[Any]) -> float:
    """Return the accuracy of a solution; NaN without a classifier."""
    if solution.b is None:
        return float("nan")
    if isinstance(X, RowSource):
        scores, labels = scored(X, solution.w[None, :], None)
        return float(np.mean((scores[:, 0] + solution.b > 0.0) == (labels > 0)))
    return float(np.mean(np.where(solution.decision(X) > 0.0, 1, -1) == y))


def sample_weights(fit: Any, m: int) -> Vec:
    """Return the weights of the m samples of a support vector machine of scikit-learn."""
    dual = fit.dual_coef_
    weights = np.zeros(m)
    weights[fit.support_] = np.abs((dual if isinstance(dual, np.ndarray) else dual.toarray())[0])
    return weights


def weights_gap(
    X: Any, y: NDArray[Any], nu: float, weights: Vec, gram: Gram | None = None
) -> dict[str, float]:
    """Return the relative gap and the violation of sample weights as an answer of the nu-SVM."""
    parts = [np.maximum(weights[y > 0], 0.0), np.maximum(weights[y < 0], 0.0)]
    data = bind(X, y) if gram is None else bind(X, y).in_gram_space(gram)
    certificate = certify(as_model(nu_svm(nu), "bench"), data, [p / p.sum() for p in parts])[0]
    return {"gap": certificate.relative_gap, "violation": certificate.violation}


def matched_C(X: Any, y: Vec, nu: float, x: Vec) -> float:
    """Return the C of the C-SVM with the same solution, `2 eta / (alpha - beta)`.

    Barbero, Takeda and Lopez (2015): alpha and beta are the scores along `x` where each class's
    weights lie between 0 and eta, hence the order statistics of rank `floor(1/eta)`.
    """
    eta = 2.0 / (nu * y.size)
    scores = X @ x
    rank = int(1.0 / eta * (1.0 + 1e-12))
    low, high = scores[y > 0], -scores[y < 0]
    alpha, beta = (np.partition(s, min(rank, s.size - 1))[min(rank, s.size - 1)] for s in (low, high))
    return 2.0 * eta / float(alpha + beta)
