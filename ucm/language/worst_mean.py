"""The worst mean of a loss over a set of weights: distributionally robust losses, CVaR, group DRO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import IdentityMap, LinearMap, MatrixMap, Vec
from ucm.data.validation import read_groups
from ucm.data.weights import EffectiveWeights
from ucm.errors import CompositionError, EmptySetError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import BoundDomain, Domain, SampleWeights, UncertaintySet
from ucm.language.cvx import quiet_solve
from ucm.language.domains import Simplex
from ucm.language.domains.box import refuse_bounds
from ucm.language.node import Notation, converted, restricted
from ucm.language.parameter import Scope
from ucm.language.sets.affine_image import DomainImage
from ucm.language.statistics.affine import ORIGIN, VectorNode
from ucm.language.statistics.samples import Samples
from ucm.language.terms import ConvexLoss, JointLoss, Subgroup, counted_samples


def _domain(weights: object, where: str = "") -> Domain | None:
    match weights:
        case Domain(by_lam=True):
            raise CompositionError(f"{where}: a lam is of a set, got {brief(weights)}; give the radius")
        case Domain() | None:
            refuse_bounds(weights, where)
            return weights
    raise CompositionError(
        f"{where}: weights is a domain of weights such as CappedSimplex(1 / 0.2, relative=True), got "
        f"{brief(weights)}; of a set of points, as Hull(pos, weights=D), give D, and name the samples in the "
        "loss, as Hinge(on=pos)"
    )


def _groups(groups: object, where: str = "") -> tuple[Samples, ...]:
    match groups:
        case tuple() | list():
            samples = tuple(counted_samples(g, where) for g in groups)
            if None not in samples:
                return samples  # type: ignore[return-value]
    raise CompositionError(
        f"{where}: groups are samples such as (pos.group('A'), neg.group('A')), got {brief(groups)}; "
        "signed.group('A') has the samples of both classes"
    )


class WorstMean(JointLoss):
    """The largest mean of a loss over a set of weights of the samples, `max over q in D of sum_i q_i l(t_i)`.

    q is a distribution over all samples, or over those of the class or group of the loss: with the uniform
    distribution alone in D, it is the mean of the loss. Over both classes q has no fixed mass for each class.
    The weights of the samples, times their class weights, make the distribution that a relative cap, a
    divergence or a norm "around uniform" refers to, and N and m are their sums.

    With `groups` q is a distribution over groups of samples, and weighs the mean loss of each. Every group
    counts once, whatever its size.

    Parameters
    ----------
    loss : ConvexLoss
        A convex loss of the margin, such as `Hinge()` or `Logistic(on=pos)`.
    weights : Domain, optional
        D, as in `Hull`: `CappedSimplex(1 / beta, relative=True)` for CVaR, `KLBall`, `ChiSquareBall`,
        `NormBall`, `Box`, intersections; None for the simplex, the largest loss.
    groups : sequence of groups of samples, optional
        Such as `(pos.group("A"), pos.group("B"), neg)`; of all samples of a group `signed.group("A")`.

    Raises
    ------
    CompositionError
        `loss` is no convex loss of single samples, `weights` no domain, or one with bounds for each sample;
        groups that are none, or beside a loss of a class.

    Notes
    -----
    CVaR: Rockafellar and Uryasev (2000); divergences: Ben-Tal, den Hertog, De Waegenaere, Melenberg and
    Rennen (2013), Robust solutions of optimization problems affected by uncertain probabilities, Management
    Science 59; groups: Sagawa, Koh, Hashimoto and Liang (2020). Any q in D makes a sum of losses with the
    weights q, whose Fenchel dual bounds the optimum from below.

    Examples
    --------
    >>> import ucm
    >>> beta = ucm.Param("beta", 0.5)
    >>> cvar = ucm.WorstMean(ucm.Hinge(), weights=ucm.CappedSimplex(1 / beta, relative=True))
    >>> cvar.value([0.0, 2.0, 1.0, -2.0])
    2.0
    >>> print(cvar)
    max_{q ∈ Δ, N q_i ≤ 1/β} Σ_{i} q_i max(0, 1 - t_i),  β = 0.5
    >>> X, y = ucm.datasets.load("iris")
    >>> round(ucm.solve(cvar + 0.1 * ucm.L2(), X, y).objective, 4)
    0.4844
    """

    loss: ConvexLoss = restricted(
        lambda _: True,
        "expected one convex loss such as Hinge()",
        "add worst means of several losses, as WorstMean(Hinge(), D) + WorstMean(Logistic(), D)",
    )
    weights: Domain | None = converted(converter=_domain, default=None)
    groups: tuple[Samples, ...] = converted(converter=_groups, default=())

    def _check(self) -> None:
        if self.groups and self.loss.counted is not None:
            raise CompositionError(
                f"WorstMean: groups name their samples, and the loss has others, got {brief(self.loss)}; "
                "drop `on`"
            )

    @property
    def weight_set(self) -> UncertaintySet:
        return WeightSet(self)

    def weights_cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        return WeightSet(self).coefficients_cvxpy(data, scope)

    def means(self, each: Callable[[NDArray[np.intp]], cp.Expression], data: Data) -> cp.Expression:
        if not self.groups:
            return each(WeightSet(self).rows(data))
        parts = [(data.copies(*g.part), each(data.rows(*g.part))) for g in self.groups]
        return cp.hstack([cp.sum(x) / x.size if c is None else c @ x / c.sum() for c, x in parts])

    def value(
        self, margin: Vec, y: Vec | None = None, weights: Vec | None = None, subgroup: Subgroup = None
    ) -> float:
        """Return the worst mean of the losses at the margins, of samples with weights 1 by default."""
        return self._worst(np.asarray(margin, dtype=float), y, weights, subgroup)[0]

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Subgroup = None, /) -> Vec:
        """Return the parts `q_i l(t_i)` of the samples in the worst mean, q a maximiser."""
        return self._worst(np.asarray(margin, dtype=float), y, None, subgroup)[1]

    def _worst(
        self, margin: Vec, y: Vec | None, weights: Vec | None, subgroup: Subgroup
    ) -> tuple[float, Vec]:
        """Return the worst mean, and its parts by sample."""
        if self.nodes_of_type(Samples) and y is None:
            raise CompositionError(
                f"{self!r}: expected the labels of the samples, as it is a loss of a class or of groups, got "
                "margins alone; write value(margin, y)"
            )
        kept = slice(None) if weights is None else np.flatnonzero(weights)
        labels = np.ones(margin.size) if y is None else np.asarray(y, dtype=float)
        groups = None if subgroup is None else read_groups(subgroup, margin.size)[kept]
        weighing = EffectiveWeights(samples=None if weights is None else np.asarray(weights)[kept])
        losses = self.loss.each(margin[kept])
        data = Data(np.zeros((losses.size, 1)), labels[kept], weighing, groups=groups)
        U, parts = WeightSet(self), np.zeros(margin.size)
        counted = [data.rows(*g.part) for g in self.groups] or [U.rows(data)]
        if not all(map(len, counted)):
            raise EmptySetError(
                f"{self!r}: expected samples of a positive weight, {'in each group, ' * bool(self.groups)}"
                "got none; a mean needs one"
            )
        why = U.infeasibility_reason(data)
        if why is not None:
            raise EmptySetError(why)
        A = U.map(data)
        height, q = maximum(U.pieces(data), A.rmatvec(losses))
        q = A.matvec(q)
        parts[kept] = np.multiply(q, losses, out=np.zeros(q.size), where=q > 0.0)
        return height, parts

    def weights_formula(self, notation: Notation) -> str:
        """Return the formula of the constraints of q."""
        counted = self.loss.counted
        counting = notation if counted is None else counted.counting(notation)
        inside = "" if self.weights is None else f", {self.weights.inside_formula(counting)}"
        return f"q{notation.element}{notation.symbol('Delta')}{inside}"

    def formula(self, notation: Notation) -> str:
        counted = self.loss.counted
        index = "i" if counted is None else counted.index(notation)
        over, each = notation.sum_over(index, ""), self.loss.formula(notation)
        if not self.groups:
            total = each.replace(over, f"{over}{notation.sub('q', 'i')} ", 1)
        else:
            means = (
                each.replace(over, notation.under("mean", g.index(notation)) + " ", 1) for g in self.groups
            )
            total = " + ".join(f"{notation.sub('q', str(k))} {x}" for k, x in enumerate(means, 1))
        return f"{notation.under('max', self.weights_formula(notation))} {total}"


class WeightSet(DomainImage):
    """The set of the weights of all samples in a worst mean, `{A q : q in D}` in R^m.

    A places the weights of the samples of a class, or spreads those of groups over their samples.
    """

    of: WorstMean

    def declared(self) -> tuple[VectorNode, Domain]:
        return ORIGIN, Simplex() if self.of.weights is None else self.of.weights

    def rows(self, data: Data) -> NDArray[np.intp]:
        """Return the indices of the samples of the loss."""
        counted = self.of.loss.counted
        return np.arange(data.m) if counted is None else data.rows(*counted.part)

    def map(self, data: Data) -> LinearMap:
        if not self.of.groups and self.of.loss.counted is None:
            return IdentityMap(data.m)
        return MatrixMap(self._matrix(data))

    def _matrix(self, data: Data) -> sparse.csr_array:
        rows = [data.rows(*g.part) for g in self.of.groups]
        if not rows:
            each = self.rows(data)
            return sparse.csr_array((np.ones(each.size), (each, np.arange(each.size))), (data.m, each.size))
        entries = [data.factors[k] / data.factors[k].sum() for k in rows]
        places = np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(k) for k in rows])
        return sparse.csr_array((np.concatenate(entries), places), shape=(data.m, len(rows)))

    def sample_weights(self, data: Data) -> SampleWeights:
        if self.of.groups:
            return SampleWeights(len(self.of.groups))
        rows, weights = self.rows(data), data.weights
        population = float(data.factors.sum()), data.count("pos"), data.count("neg")
        each = None if weights is None else weights[rows]
        return SampleWeights(rows.size, each, population=population, rows=rows)

    def __repr__(self) -> str:
        return repr(self.of)


def maximum(pieces: Sequence[BoundDomain], g: Vec) -> tuple[float, Vec]:
    """Return `max <g, q>` over an intersection of domains, and a maximiser; of several by a conic program."""
    if np.isinf(g).any():  # a loss that overflows
        return np.inf, maximum(pieces, np.where(np.isinf(g), 1.0, 0.0))[1]
    if len(pieces) == 1:
        return pieces[0].support(g)
    unit = float(np.abs(g).max(initial=0.0)) or 1.0
    q = cp.Variable(g.size)
    inside = [c for D in pieces for c in D.own_constraints(q)]
    quiet_solve(cp.Problem(cp.Maximize((g / unit) @ q), inside), "CLARABEL")
    return float(g @ q.value), q.value
