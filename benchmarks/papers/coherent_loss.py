"""The coherent classification losses of Ito, Takeda and Toh (2015), (27) to (29) and Lemma 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ucm.data.linear_map import Vec
from ucm.errors import ParameterError, brief
from ucm.evidence.support import vector_of
from ucm.language.contracts import Domain

__all__ = ["coherent_loss"]

_ROUNDING = 1e-6  # of the sum of weights that a solver of CVXPY found


def coherent_loss(margins: Vec, family: Callable[[float], Domain] | None = None) -> float:
    """Return the least coherent classification loss that is no smaller than the fraction of negative margins,
    `max {t : the t smallest margins have a negative sum} / m`, or the loss of a family of risks.

    It is 0 exactly where no margin is negative, 1 where all are, falls as margins grow, and knows neither
    their order nor their scale; its level sets are convex. The classifier with the least of it is a nu-SVM:
    that of the least `nu = (t + 1) / m` with a margin that is not negative. Ito, Takeda and Toh (2015),
    Definition 2 and Proposition 4.

    Parameters
    ----------
    margins : (m,)
    family : from k in (0, 1] to domains Q_k of distributions, which grow from the uniform one to all
        Of the loss `1 - sup {k : max over Q_k of -<q, margins> <= 0}`, which every coherent one is (Lemma 4);
        1 where there is no such k.
        The classifier with the least of it is that of `Hull(signed, weights=Q_k)` at the k at which 0 enters
        (Proposition 3). None for caps `1 / (m - ceil(m k) + 1)`, those of (29).

    Raises
    ------
    DataError
        The margins are no vector of finite numbers.
    ParameterError
        The family does not answer with distributions of m entries.

    Examples
    --------
    >>> import ucm
    >>> from benchmarks.papers.coherent_loss import coherent_loss
    >>> coherent_loss([-1.0, 0.4, 0.5, 2.0])
    0.75
    >>> balls = lambda k: ucm.KLBall(4.0**-k)
    >>> round(coherent_loss([-1.0, 0.4, 0.5, 2.0], balls), 4)
    0.9257
    """
    u = vector_of(margins, None, "coherent_loss: margins")
    if family is None:
        return int(np.count_nonzero(np.cumsum(np.sort(u)) < 0.0)) / max(u.size, 1)
    if u.size == 0 or u.min() >= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        k = 0.5 * (low + high)
        low, high = (low, k) if _risk(u, family, k) > 0.0 else (k, high)
    return 1.0 - low


def _risk(u: Vec, family: Any, k: float) -> float:
    """The largest mean of -u over the distributions at k."""
    domain = family(k) if callable(family) else family
    if callable(family) and isinstance(domain, Domain) and domain.infeasibility_reason(u.size) is None:
        risk, q = domain.support(-u)
        if abs(q.sum() - 1.0) <= _ROUNDING and q.min() >= -_ROUNDING:
            return risk
    raise ParameterError(
        f"coherent_loss: family: expected a function from k to domains of distributions of {u.size} entries, "
        f"got {brief(domain)}; give one, as lambda k: ucm.KLBall(4.0**-k)"
    )
