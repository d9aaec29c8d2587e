"""Losses under the worst distribution of a Wasserstein ball whose transport may flip labels."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.cone import Bound
from ucm.language.node import Node, Notation, number_in, restricted
from ucm.language.objective import ConvexPart, Need, Objective, multiplied
from ucm.language.parameter import Scalar, Scope, value
from ucm.language.penalties.norms import Norm
from ucm.language.robust import dual_exponent
from ucm.language.terms import ConvexLoss, ProximalPenalty, Subgroup, SubtractedPart


class Flipped(ConvexLoss):
    """The loss `l(-t)` of samples whose labels are flipped; in minus the margin it falls."""

    loss: ConvexLoss

    @property
    def offset(self) -> float:
        return self.loss.offset

    def smooth(self) -> bool:
        return self.loss.smooth()

    def each(self, margin: Vec) -> Vec:
        return self.loss.each(-margin)

    # in u = o - t it is l(2 o - u)
    def conjugate(self, s: Vec) -> Vec:
        return 2.0 * self.offset * s + self.loss.conjugate(-s)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        return -self.loss.conjugate_prox(2.0 * self.offset * t - v, t)

    def gradient(self, u: Vec) -> Vec:
        return -self.loss.gradient(2.0 * self.offset - u)

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.loss.cvxpy(-margin, factor, scope)

    def formula(self, notation: Notation) -> str:
        t = notation.sub("t", "i")
        kept = self.loss.formula(notation)
        ways = ((f"- {t}", f"+ {t}"), (f"-{t}", t), (t, f"(-{t})"))
        return next(flipped for a, b in ways if (flipped := kept.replace(a, b)) != kept)


class WassersteinObjective(Objective):
    """The worst mean of a loss over a Wasserstein ball of distributions, whose transport may flip labels.

    It is `min over w, b, lam of eps lam + mean_i max(l(t_i), l(-t_i) - kappa lam)`, `lam >= ||w||_*`, for a
    loss l with Lipschitz constant 1: the largest expected loss of distributions at a distance of at most eps
    from the samples. Transport moves a sample at the cost of its distance, in the p-norm with the dual norm
    `||.||_*`, and changes a label at the cost kappa. With `kappa=inf` it is `mean_i l(t_i) + eps ||w||_*`.

    It equals the maximum over the parts r_i of samples with flipped labels, `kappa sum_i r_i <= eps`, of
    `sum_i (1/m - r_i) l(t_i) + r_i l(-t_i) + (eps - kappa sum_i r_i) ||w||_*`. Any such r gives a convex
    problem, whose Fenchel dual is a lower bound.

    Parameters
    ----------
    loss : ConvexLoss
        `Hinge()`, `HuberHinge()` or `Logistic()`.
    intercept, scaling, offset : optional
        As in `Objective`; the intercept is not penalised, and there is no offset.
    eps : float or Param
        The radius of the ball, positive.
    kappa : float or Param, optional
        The cost of another label, not negative; inf for labels that stay.
    norm : float, optional
        p, of the distance of two samples.

    Raises
    ------
    CompositionError
        Another loss; a penalised intercept; a sum with other terms, since lam is of this loss alone.

    Notes
    -----
    Shafieezadeh-Abadeh, Kuhn and Mohajerin Esfahani (2019), Regularization via mass transportation, Journal
    of Machine Learning Research 20. The weights of the samples are those of the mean.

    Examples
    --------
    >>> import ucm
    >>> model = ucm.WassersteinObjective(ucm.Hinge(), eps=0.1, kappa=0.5)
    >>> print(model)
    min_{w, b, λ ≥ ‖w‖₂} 0.1·λ + mean_{i} max(max(0, 1 - t_i), max(0, 1 + t_i) - 0.5·λ),  t_i = y_i(w'x_i + b)
    >>> X, y = ucm.datasets.load("iris")
    >>> round(ucm.solve(model, X, y).objective, 4)
    0.7501
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"flips"})  # type: ignore[assignment]

    loss: ConvexLoss = restricted(
        lambda loss: loss.ends == (0.0, 1.0) and loss.counted is None and not loss.moves,
        "expected a convex loss of all samples with slopes of minus the margin from 0 to 1, as Hinge() or "
        "Logistic()",
        "for the 0-1 loss and the ramp loss the worst distribution gives no convex problem",
    )
    penalty: ClassVar[Any] = property(lambda self: multiplied(self.eps, self.length))
    eps: Scalar = number_in(
        "(0, inf)", "eps", "for a radius of 0 write the mean of the loss, WorstMean(loss, ...)", kw_only=True
    )
    kappa: Scalar = number_in(
        "[0, inf]", "kappa", "write kappa=inf for labels that stay", default=math.inf, kw_only=True
    )
    norm: float = number_in("[1, inf]", "norm", "write norm=2.0", default=2.0, kw_only=True)

    def _check(self) -> None:
        if self.penalised or self.offset is not None:
            raise CompositionError(
                f"{type(self).__name__}: expected no penalised intercept and no offset of the scores, which "
                f"would have a distance too, got {self.offset!r} and {self.intercept!r}; leave them out"
            )

    @property
    def rotation_invariant(self) -> bool:
        return self.norm == 2.0

    @functools.cached_property
    def length(self) -> Norm:
        """The norm of w, dual to that of the distances."""
        return Norm(dual_exponent(self.norm))

    @functools.cached_property
    def flipped(self) -> Flipped:
        """The loss of samples with the other label."""
        return Flipped(self.loss)

    def dc(self) -> tuple[ConvexPart[ProximalPenalty], ConvexPart[SubtractedPart]]:
        """Return the losses of kept and of flipped labels with `eps ||w||_*`, the terms of the dual."""
        return ConvexPart((self.loss, self.flipped), (self.penalty,)), ConvexPart()

    def multiplier(self, margin: Vec, length: float, weights: Vec) -> tuple[float, Vec]:
        """Return the best lam at the margins t and `||w||_*`, and parts r of the weights that prove it.

        The objective falls in lam as long as the weights of the samples with a gain `l(-t) - l(t)` above
        `kappa lam` exceed eps / kappa: lam is `||w||_*`, or a quotient of a gain and kappa.
        """
        eps, kappa = value(self.eps), value(self.kappa)
        gain = self.loss.each(-margin) - self.loss.each(margin)
        if kappa == 0.0 or kappa == math.inf:
            return length, np.where((gain > 0.0) & (kappa == 0.0), weights, 0.0)
        order = np.argsort(-gain)
        before = np.cumsum(weights[order]) - weights[order]
        r = np.zeros(margin.size)
        r[order] = np.where(
            gain[order] > kappa * length, np.clip(eps / kappa - before, 0.0, weights[order]), 0.0
        )
        over = np.flatnonzero(kappa * np.cumsum(weights[order]) > eps)
        last = float(gain[order[over[0]]]) / kappa if over.size else 0.0
        return max(length, last), r

    def total(
        self, margin: Vec, w: Vec, y: Vec | None, weights: Vec | None, subgroup: Subgroup = None
    ) -> float:
        c = np.ones(margin.size) if weights is None else weights
        return self.height(margin, self.length.value(w), c / c.sum())

    def height(self, margin: Vec, length: float, weights: Vec) -> float:
        """Return the objective at the margins and `||w||_*`, with weights of the samples of sum 1."""
        lam, _ = self.multiplier(margin, length, weights)
        losses, kappa = self.loss.each(margin), value(self.kappa)
        if kappa < math.inf:
            losses = np.maximum(losses, self.loss.each(-margin) - kappa * lam)
        return value(self.eps) * lam + float(weights @ losses)

    def cvxpy(
        self, t: cp.Expression, w: cp.Expression, weights: Vec, scope: Scope
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the objective at the margins t and w in CVXPY, and its constraints, the flips first."""
        weights = weights / weights.sum()
        total = scope.of(self.eps) * (lam := cp.Variable(name="lam"))
        longer = lam >= self.length.cvxpy(w, 1.0, scope)
        if value(self.kappa) == math.inf:
            return total + weights @ self.loss.cvxpy(t, 1.0, scope), [longer]
        v = cp.Variable(t.shape[0], name="v")
        flips = v >= self.flipped.cvxpy(t, 1.0, scope) - scope.of(self.kappa) * lam
        return total + weights @ v, [flips, v >= self.loss.cvxpy(t, 1.0, scope), longer]

    def formula(self, notation: Notation) -> str:
        t, y, x = (notation.sub(name, "i") for name in "tyx")
        lam, over = notation.symbol("lam"), notation.sum_over("i", "")
        kept, flipped = (f.formula(notation).removeprefix(over) for f in (self.loss, self.flipped))
        below = f"{self.variables}, {lam}{notation.geq}{notation.norm('w', f'{self.length.p:g}')}"
        cost, price = (notation.scalar(c) + notation.times + lam for c in (self.kappa, self.eps))
        either = f"{notation.word('max')}({kept}, {flipped} - {cost})"
        mean = f"{notation.under('mean', 'i')} {either if value(self.kappa) < math.inf else kept}"
        return notation.separated(
            f"{notation.under('min', below)} {price} + {mean}", f"{t} = {y}{self.score(x, notation)}"
        )

    __repr__ = Node.__repr__
