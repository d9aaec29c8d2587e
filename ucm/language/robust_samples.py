"""Losses of the worst point of a set about each sample.

With U_i about each sample, a loss l that does not rise with the margin has its largest value

    max over d in U_i of l(y_i (w'(x_i + d) + b)) = l(t_i - h_i(w)),   h_i(w) = max over d in U_i of -y_i w'd.

For the sets of this module, symmetric and equal up to a factor r_i >= 0, `h_i = r_i h` with one norm h of w.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import Matrix, Vec
from ucm.data.validation import read_groups
from ucm.errors import CompositionError, DataError, brief
from ucm.language import cvx as cp
from ucm.language.cone import PolyhedralCone
from ucm.language.contracts import UncertaintySet
from ucm.language.node import Node, Notation, converted, operator, restricted, with_value
from ucm.language.objective import DerivedLoss, Objective, multiple, multiplied
from ucm.language.parameter import Scalar, Scope, value
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.norms import L1, Norm
from ucm.language.penalties.quadratic import Quadratic
from ucm.language.per_sample import PerSample, PerSampleMultiple
from ucm.language.robust import dual_exponent
from ucm.language.sample_sets import BoundSets, FeatureDeletion, SampleSets
from ucm.language.sets.affine_image import Ball, Ellipsoid
from ucm.language.sets.combination import LinearCombination, is_number
from ucm.language.statistics.affine import (
    ConstantMatrix,
    ConstantVector,
    MatrixNode,
    Origin,
    VectorNode,
)
from ucm.language.terms import NEGLIGIBLE, ConvexLoss, ProximalPenalty, Subgroup, SupportFunction

Sort = TypeVar("Sort", bound=Node)
_REMEDY = (
    "write Ball(0, r), Ball(0, r, p=inf), np.diag(sizes) @ Ball(0, 1, p=inf) for a box, Ellipsoid(0, S, r), "
    "a multiple or a sum of these, or per_sample('radius') * Ball(0, 1)"
)


# --- the support functions of perturbations ----------------------------------------------------------
class RootNorm(SupportFunction):
    """The norm `sqrt(w'Qw)`, the support function of the ellipsoid `{Q^(1/2) u : ||u||_2 <= 1}`.

    Parameters
    ----------
    form : Quadratic
        w'Qw, Q a matrix or a covariance.

    Notes
    -----
    Its proximal map is `(I + rho Q)^-1 v`, rho >= 0 the root of a secular equation.
    """

    keeps_signs: ClassVar[bool] = False

    form: Quadratic

    def check_features(self, n: int) -> None:
        self.form.check_features(n)

    def value(self, w: Vec) -> float:
        self.form.check_features(len(w))
        return float(np.linalg.norm(self.form.root @ w))

    def _within(self, a: Vec, t: float) -> bool:
        """Return True if a, in the eigenvectors, lies in t times the ellipsoid; rounded as in `prox`."""
        e, _ = self.form.factors
        return float(np.linalg.norm(np.sqrt(e) * a / e)) <= t

    def prox(self, v: Vec, t: float) -> Vec:
        # w = v - rho Q w with rho sqrt(w'Qw) = t: a = rho |e^(1/2) V'v / (1 + rho e)| rises to |e^(-1/2) V'v|
        e, V = self.form.factors
        a = V.T @ v
        if t <= 0.0 or not a.any():
            return v
        if self._within(a, t):
            return v - V @ a

        def excess(s: float) -> float:  # in s = 1 / rho, in which it falls
            return float(np.linalg.norm(np.sqrt(e) * a / (s + e))) - t

        high = 2.0 * float(np.linalg.norm(np.sqrt(e) * a)) / t  # with room for rounding
        s = scipy.optimize.root_scalar(excess, bracket=(0.0, high), xtol=1e-15 * high, rtol=1e-14).root
        return v - V @ (e / (s + e) * a)

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        # of w + rho Q w = v, rho = t / h, h = sqrt(w'Qw): the inverse of I + rho Q - rho Qw (Qw)' / h^2
        e, V = self.form.factors
        a = V.T @ v
        if t <= 0.0:
            return M
        w = self.prox(v, t)
        h = self.value(w)
        if h == 0.0 or self._within(a, t):  # near the boundary of the ellipsoid w rounds to 0
            return M - V @ (V.T @ M)
        rho = t / h
        shrunk, q = rho * e / (1.0 + rho * e), e * (V.T @ w)
        p = V @ (q - shrunk * q)
        inner = rho / (h * h - rho * float(q @ (q - shrunk * q)))
        return M - V @ (shrunk[:, None] * (V.T @ M)) + np.outer(inner * p, p @ M)

    def gauge(self, z: Vec) -> float:
        e, V = self.form.factors
        if np.abs(self.form.project_onto_domain_cone(z) - z).max(initial=0.0) > NEGLIGIBLE * np.abs(z).max():
            return np.inf
        return float(np.linalg.norm((V.T @ z) / np.sqrt(e)))

    def domain_cone(self) -> PolyhedralCone | None:
        return self.form.domain_cone()

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        root = self.form.root
        return scope.of(factor) * cp.norm(root @ w, 2) if root.size else 0.0 * cp.sum(w)

    def formula(self, notation: Notation) -> str:
        return notation.power(f"({self.form.formula(notation)})", "(1/2)")


def _merged(U: UncertaintySet) -> list[tuple[Scalar, ProximalPenalty]]:
    """Return the support function as pairs (factor, norm) of different norms; none where it is not known."""
    terms: dict[ProximalPenalty, Scalar] = {}
    for c, h in _terms(U):
        terms[h] = terms[h] + c if h in terms else c
    return [(c, h) for h, c in terms.items()]


def _zero(center: VectorNode) -> bool:
    match center:
        case Origin():
            return True
        case ConstantVector():
            return not center.dense().any()
    return False


def _terms(U: UncertaintySet, c: Scalar = 1.0) -> list[tuple[Scalar, ProximalPenalty]]:
    """Return the support function of `c U` as pairs (factor, norm); none where it is not known."""
    match U:
        case Ball(radius=r, p=p) if _zero(U.center):
            return [(c * r, Norm(dual_exponent(p)))]
        case Ellipsoid(shape=S, radius=r) if _zero(U.center) and not S.params():
            return [(c * r, RootNorm(Quadratic(S)))]
        case LinearCombination(parts=parts):
            found = [
                _terms(V, c * (L if value(L) >= 0.0 else -L)) if is_number(L) else _image(L, V, c)
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
            weights = np.abs(A).sum(axis=1)
            return [(c * r, L1(weights))] if weights.any() else [(0.0, L1())]
        case Ellipsoid(shape=ConstantMatrix() as S, radius=r) if _zero(U.center):
            return [(c * r, RootNorm(Quadratic(A @ S.dense() @ A.T)))]
    return []


# --- the loss -----------------------------------------------------------------------------------------
def _parts(within: object) -> tuple[PerSample | None, UncertaintySet | None]:
    """Return the quantity of each sample and the set that are multiplied; None for what there is not."""
    match within:
        case PerSampleMultiple():
            return within.factor, within.set
        case UncertaintySet():
            return None, within
    return None, None


def _perturbations(U: object, where: str = "") -> UncertaintySet | PerSampleMultiple | SampleSets:
    if isinstance(U, SampleSets):
        return U
    _, sets = _parts(U)
    terms = [] if sets is None else _merged(sets)
    if not CombinedPenalty(tuple(h for _, h in terms)).proximal():
        raise CompositionError(
            f"{where}: expected a ball, an ellipsoid, or a sum of boxes and one ball, got another sum, "
            f"{brief(U)}; take a ball or an ellipsoid that contains it"
        )
    if not terms:
        raise CompositionError(
            f"{where}: within is a ball, box or ellipsoid about 0, whose support function is a norm of w, "
            f"got {brief(U)}; {_REMEDY}"
        )
    negative = next((c for c, _ in terms if value(c) < 0.0), None)
    if negative is not None:
        raise CompositionError(
            f"{where}: within has a size of at least 0, got {with_value(negative)} in {brief(U)}; write 0 "
            "for none"
        )
    return U  # type: ignore[return-value]


class Robust(DerivedLoss):
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
        one size for each sample `per_sample("radius") * Ball(0, 1)`, with one matrix for each
        `per_sample("factor") @ Ball(0, 1)`, whose values are (m, n, r), or (m, n) for diagonals; the
        deletion of features, `FeatureDeletion(k)`.

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
    26.2501
    """

    @property
    def moves(self) -> str:
        return "shapes" if isinstance(self.within, SampleSets) else "perturbations"

    loss: ConvexLoss = restricted(
        lambda loss: not loss.moves and loss.lowest() >= 0.0,
        "expected one convex loss of single samples that never rises with the margin, such as Hinge()",
        "for LeastSquares(), whose worst point may lie on either side, take Hinge(2); add losses, as "
        "Robust(Hinge(on=pos), U) + Robust(Logistic(on=neg), U), and write worst means around them, as "
        "WorstMean(Robust(Hinge(), U), D)",
    )
    within: UncertaintySet | PerSampleMultiple | SampleSets = converted(converter=_perturbations)

    @property
    def sets(self) -> UncertaintySet:
        """The set U of all samples, without the factors of the samples."""
        return _parts(self.within)[1]  # type: ignore[return-value]

    @property
    def factor(self) -> PerSample | None:
        """The quantity of each sample that multiplies the set, or None."""
        return _parts(self.within)[0]

    def check_features(self, n: int) -> None:
        """Refuse n features if the set is of vectors of another length."""
        if isinstance(self.within, SampleSets):
            self.within.check_features(n)
        elif self.sets.dimension(n) != n:
            raise CompositionError(
                f"{self!r}: expected perturbations of the {n} features of the samples, got a set in "
                f"{self.sets.dimension(n)} dimensions; both must be equal"
            )

    @functools.cached_property
    def support(self) -> tuple[Scalar, tuple[ProximalPenalty, ...] | tuple[SampleSets]]:
        """The factor c and the norms whose sum h is the support function `c h`, without the sample's own.

        Of sets whose shape differs by sample the sets of size 1 are in place of the norms.
        """
        if isinstance(self.within, SampleSets):
            return self.within.size, (self.within.shape,)
        terms = _merged(self.sets)
        if len(terms) == 1:
            return terms[0][0], (terms[0][1],)
        return 1.0, tuple(multiplied(c, h) for c, h in terms)

    def points(self, notation: Notation) -> str:
        """Return the formula of the set about each sample."""
        within = self.within
        sets = within.points(notation) if isinstance(within, SampleSets) else within.formula(notation)
        return f"{notation.sub('d', 'i')}{notation.element}{sets}"

    @property
    def rotation_invariant(self) -> bool:
        return all(h.rotation_invariant for h in self.support[1])

    def sizes(self, data: Data) -> Vec:
        """Return the factor of h for each bound sample, (m,), without that of the declaration."""
        if self.factor is None:
            return np.ones(data.m)
        r = self.factor.values(data)
        if r.min(initial=0.0) < 0.0:
            raise DataError(
                f"{self.factor!r}: expected sizes of sets, at least 0, got {r.min():g} for sample "
                f"{int(r.argmin())}; give 0 for a sample that is certain"
            )
        return r

    @property
    def inner(self) -> ConvexLoss:
        return self.loss

    def formula(self, notation: Notation) -> str:
        t, (c, norms) = notation.sub("t", "i"), self.support
        h = multiple(c, " + ".join(norm.formula(notation) for norm in norms), notation)
        h = h if len(norms) == 1 else f"({h})"
        if self.factor is not None:
            h = self.factor.formula(notation) + notation.times + h
        return self.loss.formula(notation).replace(t, f"({t} - {h})")


def without_perturbations(loss: Sort) -> Sort:
    """Return a loss with every `Robust` in it replaced by its loss."""
    return loss._rewritten(lambda node: node.loss if isinstance(node, Robust) else node)


def with_statistics(declared: Sort, data: Data) -> Sort:
    """Return a declaration with the covariances of its sets evaluated to matrices."""

    def evaluated(node: Node) -> Node:
        match node:
            case ConstantMatrix():
                return node
            case MatrixNode():
                return ConstantMatrix(node.evaluate(data))
        return node

    return declared._rewritten(evaluated)


class Perturbations:
    """The perturbations of samples by losses: norms h with `h_i = r_i h`, and the sizes r_i.

    Attributes
    ----------
    norms : the terms of h; none for sets whose shape differs by sample
    shapes : these sets, h_i r_i times their support function; else None
    n : the number of features
    sizes : the r_i, (m,)
    factors : pairs of a declared factor and the sizes without it, (m,), which sum to the sizes
    """

    def __init__(self, losses: Sequence[ConvexLoss], data: Data) -> None:
        self.norms, self.n, self.shapes = norms_of(*losses), data.n, None
        known, chosen = np.zeros(data.m, dtype=bool), np.zeros(data.m)
        self.factors: list[tuple[Scalar, Vec]] = []
        for loss in losses:
            c, r = 0.0, np.zeros(data.m)
            for robust in loss.nodes_of_type(Robust):
                robust.check_features(data.n)
                c, r = robust.support[0], robust.sizes(data)
            counts = loss.counts(data.y, data.groups)
            counts = np.ones(data.m, dtype=bool) if counts is None else counts
            both = counts & known
            if not np.array_equal(chosen[both], value(c) * r[both]):
                raise CompositionError(
                    f"{loss!r}: expected one set about each sample, got another loss that disagrees for "
                    f"{np.count_nonzero(both)} samples; write the set in every loss, or losses of different "
                    "classes"
                )
            new = counts & ~known
            chosen[new], known = value(c) * r[new], known | counts
            self.factors.append((c, np.where(new, r, 0.0)))
        self.sizes = chosen
        match self.norms:
            case (SampleSets() as sets,):
                self.norms, self.shapes = (), BoundSets(sets, sets.matrices(data), data.y, chosen)

    def heights(self, w: Vec) -> Vec:
        """Return the `h_i(w)` of all samples, (m,)."""
        if self.shapes is not None:
            return self.shapes.heights(w)
        return self.sizes * sum(h.value(w) for h in self.norms)

    def cvxpy(self, w: cp.Expression, scope: Scope) -> cp.Expression:
        """Return the `h_i(w)` of all samples as a convex CVXPY expression, (m,)."""
        if self.shapes is None:
            height = sum(h.cvxpy(w, 1.0, scope) for h in self.norms)
        else:
            height = self.shapes.sets.cvxpy(self.shapes.images_cvxpy(w), scope)
        every = [(scope.of(c) * height, r) for c, r in self.factors if r.any()]
        return sum(h if (r == 1.0).all() else cp.multiply(r, h) for h, r in every)

    @classmethod
    def of(cls, model: Objective, data: Data) -> Perturbations:
        """Return the perturbations by the losses of an objective."""
        G, H = model.dc()
        return cls((*G.pointwise, *H.losses), data)


@operator("worst margins")
def worst_margins(
    losses: Sequence[ConvexLoss], margin: Vec, w: Vec, y: Vec | None, subgroup: Subgroup,
    per_sample: Mapping[str, Vec],
) -> Vec:  # fmt: skip
    """Return the margins of the worst points, `t_i - h_i(w)`, by the losses that perturb samples."""
    if any(loss.nodes_of_type(FeatureDeletion) for loss in losses):
        raise CompositionError(
            "value: expected losses of margins, got one of deleted features, which needs the samples; write "
            "ucm.compile(...).certify(w=w, b=b).primal"
        )
    labels = np.ones(len(margin)) if y is None else y
    groups = None if subgroup is None else read_groups(subgroup, len(margin))
    data = Data(np.zeros((len(margin), len(w))), labels, groups=groups, per_sample=per_sample)
    return margin - Perturbations(losses, data).heights(w)


def norms_of(*declared: Node) -> tuple[Any, ...]:
    """Return the norms whose sum is h, common to all perturbations in declarations; () without any.

    Of sets whose shape differs by sample it is their `SampleSets` of size 1.
    """
    every = [x.support[1] for node in declared for x in node.nodes_of_type(Robust)]
    for norms in every[1:]:
        if norms != every[0]:
            losses = " + ".join(map(repr, declared))
            raise CompositionError(
                f"{losses}: expected sets of one shape in a model, got two; write sizes of one set, as "
                "Robust(Hinge(on=pos), 0.1 * U) + Robust(Hinge(on=neg), 0.3 * U)"
            )
    return every[0] if every else ()
