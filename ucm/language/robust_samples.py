"""Losses of the worst point of a set about each sample, and quantities that are given for each sample.

With U_i about each sample, a loss l that does not rise with the margin has its largest value

    max over d in U_i of l(y_i (w'(x_i + d) + b)) = l(t_i - h_i(w)),    h_i(w) = max over d in U_i of -y_i w'd.

For the sets of this module, symmetric and equal up to a factor r_i >= 0, `h_i = r_i h` with one norm h of w.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from ucm.data.bound_data import Data
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import CompositionError, DataError, ParameterError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.node import Arithmetic, Node, Notation, converted, each, in_parentheses, restricted
from ucm.language.objective import Objective, multiple, multiplied
from ucm.language.parameter import Scalar, Scope, as_factor, value
from ucm.language.penalties.norms import L1, Norm
from ucm.language.penalties.quadratic import Quadratic
from ucm.language.robust import dual_exponent
from ucm.language.sets.affine_image import Ball, Ellipsoid
from ucm.language.sets.combination import LinearCombination, is_number
from ucm.language.statistics.affine import ConstantMatrix, ConstantVector, MatrixNode, Origin
from ucm.language.terms import Bound, ConvexLoss, ProximalPenalty

_REMEDY = (
    "write Ball(0, r), Ball(0, r, p=inf), np.diag(sizes) @ Ball(0, 1, p=inf) for a box, Ellipsoid(0, S, r), "
    "a multiple or a sum of these, or per_sample('radius') * Ball(0, 1)"
)
_ROUNDING = 1e-12  # of a dual point: an entry that counts as 0


# --- quantities for each sample --------------------------------------------------------------------
class PerSample(Arithmetic):
    """A quantity with a value for each sample, which comes with the data; written `per_sample(name)`."""

    name: str = restricted(
        lambda name: str(name).isidentifier(), "name is a Python identifier", "write per_sample('radius')"
    )

    def combine(self, symbol: str, a: object, b: object) -> PerSampleMultiple:
        U = b if a is self else a
        if symbol == "*" and isinstance(U, UncertaintySet):
            return PerSampleMultiple(self, U)
        raise CompositionError(
            f"{brief(a)} {symbol} {brief(b)}: a quantity of each sample multiplies a set of perturbations, as "
            "in Robust(Hinge(), per_sample('radius') * Ball(0, 1))"
        )

    def values(self, data: Data) -> Vec:
        """Return the values of the bound samples, (m,)."""
        return data.per_sample[self.name]

    def __repr__(self) -> str:
        return f"per_sample({self.name!r})"

    def formula(self, notation: Notation) -> str:
        return notation.sub(notation.symbol(self.name), "i")


def per_sample(name: str) -> PerSample:
    """Return the symbol of a quantity with one value for each sample, such as a radius.

    The values are no part of a declaration: they come with the samples, as `compile(..., per_sample={name:
    values})` or `Classifier.fit(X, y, name=values)`, and are divided among classes and folds like these.

    Parameters
    ----------
    name : str
        A Python identifier.

    Examples
    --------
    >>> import ucm
    >>> loss = ucm.Robust(ucm.Hinge(), within=ucm.per_sample("radius") * ucm.Ball(0, 1))
    >>> X, y = [[2.0], [1.0], [-1.0]], [1, 1, -1]
    >>> sol = ucm.solve(loss + 0.1 * ucm.L2(), X, y, per_sample={"radius": [1.0, 0.5, 0.0]})
    >>> round(sol.objective, 4)
    0.1633
    """
    return PerSample(name)


def check_quantities(model: Node, data: Data) -> None:
    """Raise an error unless the data have values for the quantities of a model, and no others."""
    names = {node.name for node in model.nodes_of_type(PerSample)}
    missing, unused = sorted(names - data.per_sample.keys()), sorted(data.per_sample.keys() - names)
    if missing:
        raise DataError(
            f"per_sample({missing[0]!r}): expected a value for each of {data.given} samples, got none; give "
            f"them, as compile(..., per_sample={{{missing[0]!r}: values}}) or Classifier.fit(X, y, "
            f"{missing[0]}=values)"
        )
    if unused:
        raise ParameterError(
            f"per_sample: expected {', '.join(sorted(names)) or 'no quantities'}, as the model declares, got "
            f"{unused[0]!r} too; leave it out, or write per_sample({unused[0]!r}) in the model"
        )


class PerSampleMultiple(Arithmetic):
    """The sets `{r_i d : d in U}` of the samples, r_i the values of a quantity."""

    factor: PerSample
    set: UncertaintySet

    def combine(self, symbol: str, a: object, b: object) -> PerSampleMultiple:
        c = as_factor(a if b is self else b)
        if symbol == "*" and c is not None:
            return PerSampleMultiple(self.factor, c * self.set)
        raise CompositionError(
            f"{brief(a)} {symbol} {brief(b)}: sets that differ by sample are multiplied by numbers only; "
            "write per_sample('radius') * (U + V)"
        )

    def __repr__(self) -> str:
        return f"{self.factor!r} * {in_parentheses(repr(self.set))}"

    def formula(self, notation: Notation) -> str:
        return f"{self.factor.formula(notation)} {in_parentheses(self.set.formula(notation))}"


# --- the support functions of perturbations ----------------------------------------------------------
class RootNorm(ProximalPenalty):
    """The norm `sqrt(w'Qw)`, the support function of the ellipsoid `{Q^(1/2) u : ||u||_2 <= 1}`.

    Parameters
    ----------
    Q : (n, n) positive semidefinite array, or a covariance

    Notes
    -----
    Its proximal map is `(I + rho Q)^-1 v`, rho >= 0 the root of a secular equation.
    """

    keeps_signs: ClassVar[bool] = False

    form: Quadratic

    def check_features(self, n: int) -> None:
        self.form.check_features(n)

    def value(self, w: Vec) -> float:
        return float(np.linalg.norm(self.form.root @ w))

    def prox(self, v: Vec, t: float) -> Vec:
        # w = v - rho Q w with rho sqrt(w'Qw) = t: a = rho |e^(1/2) V'v / (1 + rho e)| rises to |e^(-1/2) V'v|
        e, V = self.form.factors
        a = V.T @ v
        if t <= 0.0 or not a.any():
            return v
        if np.linalg.norm(a / np.sqrt(e)) <= t:
            return v - V @ a

        def excess(s: float) -> float:  # in s = 1 / rho, in which it falls
            return float(np.linalg.norm(np.sqrt(e) * a / (s + e))) - t

        high = float(np.linalg.norm(np.sqrt(e) * a)) / t
        s = brentq(excess, 0.0, high, xtol=1e-15 * high, rtol=1e-14)
        return v - V @ (e / (s + e) * a)

    def conjugate(self, z: Vec) -> float:
        return 0.0

    def gauge(self, z: Vec) -> float:
        e, V = self.form.factors
        if np.abs(self.form.project_onto_domain_cone(z) - z).max(initial=0.0) > _ROUNDING * np.abs(z).max():
            return np.inf
        return float(np.linalg.norm((V.T @ z) / np.sqrt(e)))

    def project_onto_domain_cone(self, z: Vec) -> Vec:
        return self.form.project_onto_domain_cone(z)

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        root = self.form.root
        return scope.of(factor) * cp.norm(root @ w, 2) if root.size else 0.0 * cp.sum(w)

    def formula(self, notation: Notation) -> str:
        return notation.power(f"({self.form.formula(notation)})", "(1/2)")


def _zero(center: object) -> bool:
    return isinstance(center, Origin) or (isinstance(center, ConstantVector) and not center.dense().any())


def _terms(U: UncertaintySet, c: Scalar = 1.0) -> list[tuple[Scalar, ProximalPenalty]]:
    """Return the support function of `c U` as pairs (factor, norm); none where it is not known."""
    match U:
        case Ball(radius=r, p=p) if _zero(U.center):
            return [(c * r, Norm(dual_exponent(p)))]
        case Ellipsoid(shape=S, radius=r) if _zero(U.center) and not S.params():
            return [(c * r, RootNorm(Quadratic(S)))]
        case LinearCombination(parts=parts):
            found = [
                _terms(V, c * (abs(L) if isinstance(L, float) else L)) if is_number(L) else _image(L, V, c)
                for L, V in parts
            ]
            return [term for terms in found for term in terms] if all(found) else []
    return []


def _image(M: Matrix, U: UncertaintySet, c: Scalar) -> list[tuple[Scalar, ProximalPenalty]]:
    """Return the support function of `c M U` as pairs (factor, norm); none where it is not known."""
    A = M.toarray() if sparse.issparse(M) else np.asarray(M)
    match U:
        case Ball(radius=r, p=2.0) if _zero(U.center):
            return [(c * r, RootNorm(Quadratic(A @ A.T)))]
        case Ball(radius=r, p=np.inf) if _zero(U.center) and (np.count_nonzero(A, axis=0) <= 1).all():
            return [(c * r, L1(np.abs(A).sum(axis=1)))]
        case Ellipsoid(shape=ConstantMatrix() as S, radius=r) if _zero(U.center):
            return [(c * r, RootNorm(Quadratic(A @ S.dense() @ A.T)))]
    return []


# --- the loss -----------------------------------------------------------------------------------------
def _falling(loss: object, where: str = "") -> ConvexLoss:
    if not isinstance(loss, ConvexLoss) or loss.moves:
        raise CompositionError(
            f"{where}: expected one convex loss of single samples such as Hinge(), got {brief(loss)}; add the "
            "losses, as Robust(Hinge(on=pos), U) + Robust(Logistic(on=neg), U), and write WorstMean(Robust(..."
            "), D)"
        )
    if loss.lowest() < 0.0:
        raise CompositionError(
            f"{where}: expected a loss that never rises with the margin, got {brief(loss)}, whose worst point "
            "may lie on either side; take Hinge(2) or Logistic()"
        )
    return loss


def _perturbations(U: object, where: str = "") -> UncertaintySet | PerSampleMultiple:
    sets = U.set if isinstance(U, PerSampleMultiple) else U
    if not isinstance(sets, UncertaintySet) or not _terms(sets):
        raise CompositionError(
            f"{where}: within is a ball, box or ellipsoid about 0, of which the support function is a norm of "
            f"w, got {brief(U)}; {_REMEDY}"
        )
    return U  # type: ignore[return-value]


class Robust(ConvexLoss):
    """The loss of the worst point of a set about each sample, `sum_i max over d in U_i of l(t_i + y_i w'd)`.

    l never rises with the margin t, so that it is `l(t_i - h_i(w))`, h_i the support function of U_i. The
    margins of the methods are these smallest ones, `t_i - h_i(w)`.

    Parameters
    ----------
    loss : ConvexLoss
        A convex loss that never rises with the margin, such as `Hinge()` or `Logistic(on=pos)`.
    within : UncertaintySet
        U_i about 0: `Ball(0, r, p)` of any norm, a box `np.diag(sizes) @ Ball(0, 1, p=inf)`, an ellipsoid
        `Ellipsoid(0, S, r)` of a matrix or a covariance, images `M @ Ball(0, r)`, sums and multiples; with
        one size for each sample `per_sample("radius") * Ball(0, 1)`.

    Raises
    ------
    CompositionError
        A loss that rises with the margin, such as `LeastSquares()`; a set without such a support function.

    Notes
    -----
    Balls of the Euclidean norm: Shivaswamy, Bhattacharyya and Smola (2006), Second order cone programming
    approaches for handling missing and uncertain data; of other norms: Xu, Caramanis and Mannor (2009),
    Robustness and regularization of support vector machines. All losses of one sample share its set, and the
    column of a penalised intercept is not perturbed.

    Examples
    --------
    >>> import ucm
    >>> loss = ucm.Robust(ucm.Hinge(), within=ucm.Ball(0, ucm.Param("r", 0.2), p=float("inf")))
    >>> print(loss)
    Σ_{i} max(0, 1 - (t_i - r·‖w‖₁)),  r = 0.2
    >>> X, y = ucm.datasets.load("iris")
    >>> round(ucm.solve(loss + 0.1 * ucm.L2(), X, y).objective, 4)
    0.0
    """

    moves: ClassVar[bool] = True

    loss: ConvexLoss = converted(converter=_falling)
    within: Any = converted(converter=_perturbations)

    @functools.cached_property
    def support(self) -> tuple[Scalar, tuple[ProximalPenalty, ...]]:
        """The factor c and the norms whose sum h is the support function `c h`, without the sample's own."""
        terms = _terms(self.within.set if isinstance(self.within, PerSampleMultiple) else self.within)
        if len(terms) == 1:
            return terms[0][0], (terms[0][1],)
        return 1.0, tuple(multiplied(c, h) for c, h in terms)

    @property
    def rotation_invariant(self) -> bool:
        return all(h.rotation_invariant for h in self.support[1])

    def sizes(self, data: Data) -> Vec:
        """Return the factor of h for each bound sample, (m,), without that of the declaration."""
        if not isinstance(self.within, PerSampleMultiple):
            return np.ones(data.m)
        factor = self.within.factor
        r = factor.values(data)
        if r.min(initial=0.0) < 0.0:
            raise DataError(
                f"{factor!r}: expected sizes of sets, at least 0, got {r.min():g} for sample "
                f"{int(r.argmin())}; give 0 for a sample that is certain"
            )
        return r

    @property
    def offset(self) -> float:
        return self.loss.offset

    def slope(self) -> float | None:
        return self.loss.slope()

    def smooth(self) -> bool:
        return self.loss.smooth()

    def each(self, margin: Vec) -> Vec:
        return self.loss.each(margin)

    def conjugate(self, s: Vec) -> Vec:
        return self.loss.conjugate(s)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        return self.loss.conjugate_prox(v, t)

    def gradient(self, u: Vec) -> Vec:
        return self.loss.gradient(u)

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.loss.cvxpy(margin, factor, scope)

    def formula(self, notation: Notation) -> str:
        t, (c, norms) = notation.sub("t", "i"), self.support
        h = multiple(c, " + ".join(norm.formula(notation) for norm in norms), notation)
        if isinstance(self.within, PerSampleMultiple):
            h = self.within.factor.formula(notation) + notation.times + in_parentheses(h)
        return self.loss.formula(notation).replace(t, f"({t} - {h})")


def without_perturbations(loss: Any) -> Any:
    """Return a loss with every `Robust` in it replaced by its loss."""
    if isinstance(loss, Robust):
        return loss.loss
    if not any(isinstance(x, Robust) for x in loss.walk()):
        return loss
    return replace(loss, **{name: each(getattr(loss, name), without_perturbations) for name in loss._names})


def with_statistics(node: Any, data: Data) -> Any:
    """Return a declaration with the covariances of its sets evaluated to matrices."""
    if isinstance(node, MatrixNode):
        node.dimension(data.n)
        return node if isinstance(node, ConstantMatrix) else ConstantMatrix(node.evaluate(data))
    if not any(isinstance(x, MatrixNode) for x in node.walk()):
        return node
    return replace(node, **{n: each(getattr(node, n), lambda x: with_statistics(x, data)) for n in node._names})


class Perturbations:
    """The perturbations of the samples of a model: norms h with `h_i = r_i h`, and the sizes r_i.

    Attributes
    ----------
    norms : the terms of h
    n : the number of features
    sizes : the r_i, (m,)
    factors : pairs of a declared factor and the sizes without it, (m,), which sum to the sizes
    """

    def __init__(self, model: Objective, data: Data) -> None:
        G, H = model.dc()
        if H.penalties:
            raise CompositionError(
                f"Robust: expected a convex penalty, got {brief(model.penalty)}; take L1() or L2(), or leave "
                "the perturbations out"
            )
        self.norms, self.n = norms_of(model), data.n
        for h in self.norms:
            h.check_features(data.n)
        known, chosen = np.zeros(data.m, dtype=bool), np.zeros(data.m)
        self.factors: list[tuple[Scalar, Vec]] = []
        for loss in (*G.pointwise, *H.losses):
            robust = next((x for x in loss.walk() if isinstance(x, Robust)), None)
            c, r = (0.0, np.zeros(data.m)) if robust is None else (robust.support[0], robust.sizes(data))
            counts = loss.counts(data.y, data.groups)
            counts = np.ones(data.m, dtype=bool) if counts is None else counts
            both = counts & known
            if not np.array_equal(chosen[both], value(c) * r[both]):
                raise CompositionError(
                    f"{model.loss!r}: expected one set about each sample, got losses that disagree for "
                    f"{np.count_nonzero(both)} samples; write the set in every loss, or losses of different "
                    "classes"
                )
            new = counts & ~known
            chosen[new], known = value(c) * r[new], known | counts
            self.factors.append((c, np.where(new, r, 0.0)))
        self.sizes = chosen

    def heights(self, w: Vec) -> Vec:
        """Return the `h_i(w)` of all samples, (m,)."""
        return self.sizes * sum(h.value(w) for h in self.norms)

    def cvxpy(self, w: cp.Expression, scope: Scope) -> cp.Expression:
        """Return the `h_i(w)` of all samples as a convex CVXPY expression, (m,)."""
        height = sum(h.cvxpy(w, 1.0, scope) for h in self.norms)
        return sum(r * (scope.of(c) * height) for c, r in self.factors if r.any())


def norms_of(model: Objective) -> tuple[ProximalPenalty, ...]:
    """Return the norms whose sum is h, common to all perturbations of a model; () without any."""
    every = [x.support[1] for x in model.loss.nodes_of_type(Robust)]
    for norms in every[1:]:
        if norms != every[0]:
            raise CompositionError(
                f"{model.loss!r}: expected sets of one shape in a model, got two; write sizes of one set, as "
                "Robust(Hinge(on=pos), 0.1 * U) + Robust(Hinge(on=neg), 0.3 * U)"
            )
    return every[0] if every else ()
