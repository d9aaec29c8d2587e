"""Every answer under one certificate: weights of the samples, or a direction alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound import bind
from ucm.evidence.certificate import certify
from ucm.language.domains import CappedSimplex
from ucm.language.models import nu_svm
from ucm.language.robust import as_model

__all__ = ["direction_bound", "matched_C", "weights_gap"]

Vec = NDArray[np.float64]


def _halves(y: Vec, weights: Vec) -> list[Vec]:
    """Weights of each class with sum 1."""
    parts = [np.maximum(weights[y > 0], 0.0), np.maximum(weights[y < 0], 0.0)]
    return [p / p.sum() for p in parts]


def weights_gap(X: Any, y: Vec, nu: float, weights: Vec, K: Any = None) -> dict[str, float]:
    """Relative gap and violation of sample weights as an answer of the nu-SVM; K a Gram matrix."""
    q = _halves(y, weights)
    if K is None:
        certificate, _, _ = certify(as_model(nu_svm(nu), "bench"), bind(X, y), q)
        return {"gap": certificate.relative_gap, "violation": certificate.violation}
    domain = CappedSimplex(2.0 / (nu * y.size))
    c = np.zeros(y.size)
    c[y > 0], c[y < 0] = q[0], -q[1]
    scores = K @ c
    norm = float(np.sqrt(max(c @ scores, 0.0)))
    least = -domain.support(-scores[y > 0])[0] - domain.support(scores[y < 0])[0]
    return {
        "gap": (norm - least / norm) / norm,
        "violation": max(domain.violation(part) for part in q),
    }


def direction_bound(X: Any, y: Vec, nu: float, w: Vec) -> float:
    """`min <w, x> / ||w||` over U: no point of U is nearer to 0 than this."""
    height = nu_svm(nu).support(bind(X, y), -w / np.linalg.norm(w), {})[0]
    return -height


def matched_C(X: Any, y: Vec, nu: float, x: Vec) -> float:
    """The C of the C-SVM with the same solution, `2 eta / (alpha - beta)`.

    Barbero, Takeda and Lopez (2015): alpha and beta are the scores along `x` where each class's
    weights lie between 0 and eta, hence the order statistics of rank `floor(1/eta)`.
    """
    eta = 2.0 / (nu * y.size)
    scores = X @ x
    rank = int(1.0 / eta * (1.0 + 1e-12))
    low, high = scores[y > 0], -scores[y < 0]
    alpha, beta = (
        np.partition(s, min(rank, s.size - 1))[min(rank, s.size - 1)] for s in (low, high)
    )
    return 2.0 * eta / float(alpha + beta)
