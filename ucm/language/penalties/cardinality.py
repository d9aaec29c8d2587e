"""At most k nonzero weights, and the convex envelope of the squared l2 norm under this constraint."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.errors import ParameterError
from ucm.language import cvx as cp
from ucm.language.node import Node, Notation, restricted
from ucm.language.objective import ScaledPenalty, multiplied
from ucm.language.parameter import Scalar, Scope, value
from ucm.language.terms import Penalty, ProximalPenalty, Relaxed


def _features(which: str) -> Any:
    """Return a dataclass field for indices of features."""
    return restricted(
        lambda x: all(j >= 0 for j in x) and len(set(x)) == len(x),
        f"{which} are indices of features, each once",
        f"write for example {which}=(0, 2)",
        default=(),
    )


Sort = TypeVar("Sort", bound=Node)
_TINY = 1e-100  # in place of 0, which a cone of CVXPY divides by


@functools.lru_cache(maxsize=256)
def _others(features: tuple[int, ...], n: int) -> NDArray[np.intp]:
    """Return the indices below n that are not among the features."""
    return np.setdiff1d(np.arange(n), features)


class FeatureCount(Penalty):
    """The base class of penalties for at most k nonzero weights, the `included` features among them."""

    k: Scalar = restricted(
        lambda k: k >= 1.0 and k % 1.0 == 0.0,
        "k is a whole number of nonzero weights, at least 1",
        "give as many as there may be; with no features there is no classifier",
        error=ParameterError,
    )
    included: tuple[int, ...] = _features("included")
    excluded: tuple[int, ...] = _features("excluded")

    def _check(self) -> None:
        if len(self.included) > value(self.k) or set(self.included) & set(self.excluded):
            raise ParameterError(
                f"{type(self).__name__}: expected at most k = {value(self.k):g} included features, none of "
                f"them excluded, got included={self.included}, excluded={self.excluded}; drop some"
            )

    @functools.cached_property
    def left(self) -> int:
        """The number of nonzero weights besides the included features."""
        return round(value(self.k)) - len(self.included)

    def free(self, n: int) -> NDArray[np.intp]:
        """Return the indices of the features that are neither included nor excluded."""
        return _others((*self.included, *self.excluded), n)

    def confined(self, included: Sequence[int], excluded: Sequence[int]) -> Self:
        """Return the penalty with further included and excluded features."""
        chosen, left_out = (*self.included, *included), (*self.excluded, *excluded)
        return replace(self, included=chosen, excluded=left_out)

    def check_features(self, n: int) -> None:
        largest = max((*self.included, *self.excluded, 0))
        if value(self.k) > n or largest >= n:
            raise ParameterError(
                f"{type(self).__name__}: expected at most the {n} features of the samples, got "
                f"{self!r}; give k <= {n} and indices below {n}"
            )

    def with_column(self, n: int) -> Penalty:
        return replace(self, k=self.k + 1.0, included=(*self.included, n))

    def _without(self, w: str, notation: Notation) -> tuple[str, str]:
        """Return the formulas of w without the included features, and of the excluded ones."""
        names = ",".join(f"-{j}" for j in self.included)
        zeros = "".join(f", {notation.sub('w', str(j))} = 0" for j in self.excluded)
        return notation.sub(w, names) if names else w, zeros


class Cardinality(FeatureCount, Relaxed):
    """The constraint that at most k weights are not 0, `||w||_0 <= k`, as a penalty: 0 or infinite.

    It stands beside a multiple of `L2()`. The problem is not convex; `ucm.solvers.BranchAndBound` bounds its
    global optimum from below by the convex envelopes `KSupport`, and closes the gap by branching on features.

    Parameters
    ----------
    k : int or Param
        From 1 to the number of features. A penalised intercept does not count.
    included, excluded : tuple of int, optional
        The indices of features that count among the k in any case, and of features whose weights are 0.

    Raises
    ------
    ParameterError
        k below 1 or not whole; more features than the samples have; more than k included features.

    Notes
    -----
    Bertsimas, Pauphilet and Van Parys (2020), Sparse regression: scalable algorithms and empirical
    performance, and Sparse classification: a scalable discrete optimization perspective (2021), whose
    gamma makes the penalty `L2() / (2 * gamma)`; Dedieu, Hazimeh and Mazumder (2021), Learning sparse
    classifiers: continuous and mixed integer optimization perspectives.

    Examples
    --------
    >>> import ucm
    >>> ucm.Cardinality(1).value([0.0, 2.0]), ucm.Cardinality(1).value([1.0, 2.0])
    (0.0, inf)
    >>> X, y = ucm.datasets.load("wine")
    >>> model = ucm.Hinge() + 0.5 * ucm.L2() + ucm.Cardinality(2)
    >>> sol = ucm.solve(model, X, y)
    >>> sol.status, int((sol.w != 0).sum())
    ('optimal', 2)
    """

    @property
    def exact(self) -> bool:
        return self.left == 0

    def value(self, w: Vec) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        used = np.flatnonzero(w)
        inside = np.setdiff1d(used, self.included).size <= self.left
        return 0.0 if inside and not np.intersect1d(used, self.excluded).size else np.inf

    def envelope(self, added: Sequence[ProximalPenalty]) -> tuple[ProximalPenalty, ...]:
        """Return the terms with the multiples of L2() replaced by those of `KSupport`, a lower bound."""
        return tuple(self._relaxed(R) if _is_square(R) else R for R in added)

    def _relaxed(self, R: ProximalPenalty) -> ProximalPenalty:
        """Return the multiple of `KSupport` with the factor, and its parameters, of a squared l2 norm."""
        if isinstance(R, ScaledPenalty):
            return replace(R, term=self._relaxed(R.term))
        return multiplied((R.norms() or (0.0, 1.0, 0.0))[1], KSupport(self.k, self.included, self.excluded))

    def formula(self, notation: Notation) -> str:
        w, zeros = self._without("w", notation)
        most = notation.scalar(float(self.left) if self.included else self.k)
        return f"{notation.word('ind')}({notation.norm(w, '0')}{notation.leq}{most}{zeros})"


def _is_square(R: ProximalPenalty) -> bool:
    """Return True for a multiple of the squared l2 norm."""
    norms = R.norms()
    return norms is not None and norms[1] > 0.0 and norms[0] == norms[2] == 0.0


class KSupport(FeatureCount, ProximalPenalty):
    """The squared k-support norm, the convex envelope of `||w||_2^2` over w with at most k nonzeros.

    It is the least `sum_j w_j^2 / s_j` over 0 <= s_j <= 1 with `sum_j s_j <= k`, s_j = 1 for included
    and 0 for excluded features. Its conjugate at z is a fourth of the sum of the k largest z_j^2. It favours
    few features, and among correlated features more than `L1` does.

    Parameters
    ----------
    k : int or Param
        From 1 to the number of features.
    included, excluded : tuple of int, optional
        As in `Cardinality`.

    Notes
    -----
    Argyriou, Foygel and Srebro (2012), Sparse prediction with the k-support norm.

    Examples
    --------
    >>> import ucm
    >>> ucm.KSupport(1).value([3.0, 4.0]), ucm.KSupport(2).value([3.0, 4.0])
    (49.0, 25.0)
    """

    def shares(self, a: Vec, shift: float = 0.0) -> tuple[Vec, float]:
        """Return `s_j = clip(r a_j - shift, 0, 1)` of sum k, 1 if included and 0 if excluded, and r.

        Where no more than k of the lengths a are positive, their s_j is 1; with less than k that of all.
        """
        s, free = np.zeros(a.size), self.free(a.size)
        s[list(self.included)] = 1.0
        free = free[a[free] > 0.0]
        if free.size <= self.left:
            s[free if free.size == self.left else self.free(a.size)] = 1.0
            return s, np.inf
        if not self.left:
            return s, 0.0
        # The sum of the s_j rises in r, linearly between kinks: s_j leaves 0 at shift / a_j, and reaches 1 at
        # (1 + shift) / a_j, both in the order of falling a_j. Its slope is the sum of the a_j in between.
        unit = float(a[free].max())
        lengths = np.maximum(a[free] / unit, 1e-290)
        falling = np.sort(lengths)[::-1]
        kinks = np.concatenate([shift / falling, (1.0 + shift) / falling])
        order = np.argsort(kinks, kind="stable")
        left_0 = np.cumsum(order < free.size)  # the number of s_j above 0 behind each kink
        at_1 = np.arange(1, order.size + 1) - left_0
        tails = np.append(np.cumsum(falling[::-1])[::-1], 0.0)  # sums from each a_j on, without cancellation
        kinks, slopes = kinks[order], tails[at_1] - tails[left_0]
        sums = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(kinks))])
        before = max(int(np.searchsorted(sums, self.left)), 1) - 1  # the last kink with a sum below k
        r = float(kinks[before])
        if slopes[before] > 0.0:  # a shift of 2^53 hides the 1 of the kinks
            r += float((self.left - sums[before]) / slopes[before])
        s[free] = np.clip(r * lengths - shift, 0.0, 1.0)
        return s, r / unit

    def value(self, w: Vec) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        s, r = self.shares(np.abs(w))
        used = w != 0.0
        if (s[used] == 0.0).any():
            return np.inf
        whole = used & (s == 1.0)
        rest = float(np.abs(w[used & ~whole]).sum())
        return float(w[whole] @ w[whole]) + (rest / r if rest else 0.0)

    def prox(self, v: Vec, t: float) -> Vec:
        s, _ = self.shares(np.abs(v), 2.0 * t)
        return v * np.divide(s, s + 2.0 * t, out=np.zeros_like(s), where=s > 0.0)

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        # between 0 and 1 the proximal point is v_j - 2 t sign(v_j) / r, and r depends on these |v_j| alone
        s, _ = self.shares(np.abs(v), 2.0 * t)
        between = (s > 0.0) & (s < 1.0)
        sign = np.where(between, np.sign(v), 0.0)
        count = np.count_nonzero(between)
        others = self.left - np.count_nonzero(s == 1.0) + len(self.included)
        scaled = np.where(s == 1.0, 1.0 / (1.0 + 2.0 * t), between.astype(float))[:, None] * M
        if not count:
            return scaled
        return scaled - sign[:, None] * ((sign @ M) * (2.0 * t / (others + 2.0 * t * count)))

    def conjugate(self, z: Vec) -> float:
        each = np.square(z)
        fixed, free = each[list(self.included)], each[self.free(z.size)]
        largest = np.partition(free, -self.left)[-self.left :] if 0 < self.left < free.size else free
        return 0.25 * float(fixed.sum() + (largest.sum() if self.left else 0.0))

    def gauge(self, z: Vec) -> float:
        return 0.0

    def project_domain(self, w: Vec) -> Vec:
        inside = np.zeros(w.size)
        inside[list(self.included)] = 1.0
        if self.left:
            inside[self.free(w.size)] = 1.0
        return np.where(inside > 0.0, w, 0.0)

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        free, fixed, total, n = self.free(w.shape[0]), list(self.included), 0.0, w.shape[0]
        outside = list(self.excluded) if self.left else np.setdiff1d(np.arange(n), fixed)
        inside = [w[outside] == 0] if len(outside) else []
        if fixed:
            total += cp.sum_squares(w[fixed])
        if self.left and free.size:
            s, u = cp.Variable(free.size), cp.Variable(free.size)  # w_j^2 <= s_j u_j
            cone = cp.SOC(s + u, cp.vstack([2.0 * w[free], s - u]), axis=0)
            inside += [cone, s <= 1, cp.sum(s) <= scope.of(self.k) - len(fixed)]
            total += cp.sum(u)
            if w.is_constant():  # for the value of the expression
                v = w.value[free]
                s.value = self.shares(np.abs(w.value))[0][free] * (v != 0.0)
                u.value = np.divide(v * v, s.value, out=np.full(free.size, _TINY), where=s.value > 0.0)
        total = scope.of(factor) * total
        return total + cp.indicator(inside) if inside else total

    def formula(self, notation: Notation) -> str:
        w, zeros = self._without("w", notation)
        most = notation.scalar(float(self.left) if self.included else self.k)
        squares = [notation.power(notation.sub("w", str(j)), "2") for j in self.included]
        if self.left:
            squares.insert(0, notation.power(notation.norm(w, f"{most}-sp"), "2"))
        else:
            zeros = f", {w} = 0"
        return " + ".join(squares) + (f" + {notation.word('ind')}({zeros[2:]})" if zeros else "")


def fixed(penalty: Sort, included: Sequence[int], excluded: Sequence[int]) -> Sort:
    """Return the penalty with further included and excluded features in its cardinalities."""
    return penalty._rewritten(
        lambda node: node.confined(included, excluded) if isinstance(node, FeatureCount) else node
    )
