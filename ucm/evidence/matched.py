"""The radius of a ball of a loss that stands for the lam of a generalised nu-SVM.

Ito, Takeda and Toh (2015), (22) and (25): with `h(q) = (1/m) sum l*(m q_i)` over weights q of mass 1/2 for
each class, and Z of columns `y_i x_i`,

    min over ||w|| <= lam, b, rho of -rho + (1/m) sum l(rho - margin_i) = -min over q of h(q) + lam ||Z q||.

By their Lemma 5 an optimal q is the nearest point of the hull whose weights have `h <= h(q)`. For w of norm 1
and t = 1 / lam both sides are those of the smooth convex

    F(w) = max over q of -w'Z q - t h(q),        ||w|| <= 1,

whose maximisers q(w) are roots for one multiplier a class, and whose gradient is `-Z q(w)`. Newton's method
in the ball minimises it. The gap of w and q(w) is `||Z q|| - w'Z q`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import MatrixMap, scaled
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError
from ucm.language import masses
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import LossBall, SimplexLoss, curved
from ucm.language.domains.loss_ball import ConjugateCurve
from ucm.language.losses import Hinge
from ucm.language.node import value
from ucm.language.parameter import Param
from ucm.language.robust import RobustMargin
from ucm.language.sets import Hull
from ucm.language.sets.combination import summands
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.term_algebra import peeled

__all__ = ["by_lam", "with_radii"]

_ORDER = 2000  # of a linear system
_STEPS = 200
_ENOUGH = 1e-15  # gap, of the points of the hulls
_GAP = 1e-7  # of the distance: where an end is none
_ZERO = 1e-9  # distance, of the points of the hulls: where w = 0 is optimal
_ROUNDING = 1e-15


def by_lam(node: Any) -> bool:
    """Whether it is a ball whose radius is that of a lam."""
    return isinstance(node, LossBall) and node.lam is not None


def with_radii(model: RobustMargin, data: Data) -> RobustMargin:
    """The model with radii, `Param`s of this name, in place of every lam.

    Raises
    ------
    CompositionError
        The hulls are not those of (22), or have two lams, or a loss of one class is no p-hinge with p > 1.
    EmptySetError
        The slopes of the loss are too small for any radius.
    ParameterError
        lam is not positive, or so large that w = 0 is optimal; more than 2,000 features and samples.
    SolverError
        The optimum was not found.
    """
    return data.once(("radii", model), lambda: _with_radii(model, data))


@dataclass(frozen=True)
class _Term:
    """A hull of the set.

    Attributes
    ----------
    hull, ball : as declared; its weights as they are bound
    A : samples and sign in front
    classes : the labels where it is of both
    curve : h in the units of its masses
    """

    hull: Hull
    ball: LossBall
    A: LinearMap
    classes: Vec | None
    curve: ConjugateCurve

    @property
    def dim(self) -> int:
        return self.A.shape[1]

    @property
    def parts(self) -> list[tuple[Any, float]]:
        """Its masses."""
        return masses.groups(self.dim, self.classes)

    def at(self, w: Vec, t: float) -> curved.Point:
        """q(w)."""
        return curved.soft(self.curve, -self.A.rmatvec(w), self.parts, t)

    def hessian(self, point: curved.Point) -> NDArray[np.float64]:
        """Its part of that of F."""
        W = np.where(point.q > 0.0, point.w, 0.0)
        H = self.A.weighted_gram(W)
        for index, _ in self.parts:
            own = np.zeros(self.dim)
            own[index] = W[index]
            if own.any():
                c = self.A.matvec(own)
                H = H - np.outer(c, c) / own.sum()
        return H


def _with_radii(model: RobustMargin, data: Data) -> RobustMargin:
    hulls = _hulls(model.set)
    if hulls is None or model.norm != 2.0:
        raise CompositionError(
            f"lam: expected Hull(signed, weights=LossBall(loss, lam=...)) or such hulls of pos and of neg, "
            f"Hull(pos, ...) - Hull(neg, ...), in the Euclidean norm, got {model!r}; give the radius"
        )
    lam = _lam(hulls)
    power = max(math.frexp(data.scale)[1], -1000)  # of the unit of the samples
    terms = _terms(hulls, data.written(data.X * math.ldexp(1.0, -power), data.gram, data.space))
    if all(term.ball.loss.slope() is not None for term in terms):
        radii = [0.0] * len(terms)  # l* is 0 wherever it is finite
    else:
        t = 1.0 / min(max(math.ldexp(lam, power), 1e-100), 1e100)
        q = _optimum(_in_span(terms), t, lam)
        radii = [term.ball.curve(term.dim).value(v) for term, v in zip(terms, q, strict=True)]
    taken = model.params()
    found = [_with_radius(hull, r, taken) for hull, r in zip(hulls, radii, strict=True)]
    return replace(model, set=found[0] if len(found) == 1 else found[0] - found[1])


def _hulls(U: UncertaintySet) -> list[Hull] | None:
    """That of all samples, or those of class +1 and -1, all by lam; None for any other set."""
    pairs = list(summands(U))
    signs = {V.samples: L for V, L in pairs if isinstance(V, Hull) and by_lam(V.weights)}
    if len(signs) != len(pairs) or signs not in ({signed: 1.0}, {pos: 1.0, neg: -1.0}):
        return None
    return sorted((V for V, _ in pairs), key=lambda V: V.samples == neg)  # type: ignore[attr-defined, return-value]


def _lam(hulls: list[Hull]) -> float:
    """That of all hulls."""
    found = [value(hull.weights.lam) for hull in hulls]  # type: ignore[union-attr]
    if len(set(found)) > 1:
        raise CompositionError(
            f"lam: expected one lam for both classes, as ||w|| has one bound, got {found[0]:g} and "
            f"{found[1]:g}; give both the same, and multiply a loss to weigh its class"
        )
    if not 0.0 < found[0] < math.inf:
        raise ParameterError(
            f"lam: expected a positive number, got {found[0]:g}; write one, as 1.0"
        )
    return found[0]


def _with_radius(hull: Hull, radius: float, taken: Collection[str]) -> Hull:
    """`taken` are the names of the other parameters."""
    word = "radius" if hull.samples == signed else f"radius_{hull.samples.tag}"
    while word in taken:
        word += "_of_lam"
    return replace(hull, weights=LossBall(hull.weights.loss, Param(word, radius)))  # type: ignore[union-attr]


def _terms(hulls: list[Hull], data: Data) -> list[_Term]:
    spaces = [hull.space(data) for hull in hulls]
    balls: list[Any] = [space.domain for space in spaces]
    count = sum(D.count(space.dim) for D, space in zip(balls, spaces, strict=True)) / len(hulls)
    found = []
    for hull, space, ball in zip(hulls, spaces, balls, strict=True):
        base = peeled(ball.loss)[1]
        if len(hulls) > 1 and not (isinstance(base, Hinge) and base.p > 1.0):
            raise CompositionError(
                f"lam: expected the loss of one class to be Hinge(p) with p > 1, got {ball.loss!r}, whose "
                "balls are others with the number of samples; take Hull(signed, ...)"
            )
        why = SimplexLoss(ball.loss, 1e300, copies=ball.copies).emptiness(
            space.dim, classes=space.classes
        )
        if why is not None:
            raise EmptySetError(f"{hull!r}: {why.partition(': ')[2]}")
        A = scaled(hull.image(data)[1], -1.0 if hull.samples == neg else 1.0)
        curve = ConjugateCurve(ball.loss, count, ball.copies)
        found.append(_Term(hull, ball, A, space.classes, curve))
    return found


def _in_span(terms: list[_Term]) -> list[_Term]:
    """The same in coordinates of the span of the samples, where these are fewer than the features."""
    n, m = terms[0].A.shape[0], sum(term.dim for term in terms)
    if min(n, m) > _ORDER:
        raise ParameterError(
            f"lam: expected at most {_ORDER:,} features or as many samples, got {n:,} and {m:,}; give the "
            "radius"
        )
    if n <= m:
        return terms
    stacked = [term.A.matrix() for term in terms]
    Z: Any = sparse.hstack(stacked).tocsr() if sparse.issparse(stacked[0]) else np.hstack(stacked)
    K = Z.T @ Z
    squares, V = np.linalg.eigh(K.toarray() if sparse.issparse(K) else K)
    kept = squares > m * np.finfo(float).eps * squares[-1]
    R = np.sqrt(squares[kept])[:, None] * V[:, kept].T
    ends = np.cumsum([term.dim for term in terms])[:-1]
    each = np.hsplit(R, ends)
    return [
        replace(t, A=MatrixMap(np.ascontiguousarray(B))) for t, B in zip(terms, each, strict=True)
    ]


def _optimum(terms: list[_Term], t: float, lam: float) -> list[Vec]:
    """The weights of the hulls at the least of F; `lam` is for messages."""
    centers = [
        term.A.matvec(masses.uniform(term.dim, term.classes, term.curve.copies)) for term in terms
    ]
    w = np.sum(centers, axis=0)
    w = w / (np.linalg.norm(w) or 1.0)
    height, points, x, size = _value(terms, t, w)
    gap = float(np.linalg.norm(x) - w @ x)
    for _ in range(_STEPS):
        if gap <= _ENOUGH * size:
            break
        H = np.sum([term.hessian(p) for term, p in zip(terms, points, strict=True)], axis=0)
        step = _in_ball(H, x + H @ w) - w
        fall, share = float(x @ step), 1.0
        after, found = w + step, _value(terms, t, w + step)
        while share > 1e-12 and found[0] > height - 1e-4 * share * fall:
            share *= 0.5
            after = w + share * step
            found = _value(terms, t, after)
        hidden = height - found[0] <= _ROUNDING * (size + abs(height))
        least = float(np.linalg.norm(found[2]) - after @ found[2])
        if hidden and least >= gap:
            break
        w, (height, points, x, size), gap = after, found, least
    norm = float(np.linalg.norm(x))
    if norm <= _ZERO * size:
        raise ParameterError(
            f"lam: expected a value for which w = 0 is not optimal, got {lam:g}; take a smaller one, or "
            "divide the loss (a larger nu)"
        )
    if not gap <= _GAP * norm < math.inf:
        raise SolverError(
            f"lam: the radius of lam = {lam:g} was not found, its relative gap is {gap / norm:.2g}; scale "
            "the features, or give the radius"
        )
    return [point.q for point in points]


def _value(terms: list[_Term], t: float, w: Vec) -> tuple[float, list[curved.Point], Vec, float]:
    """F(w), its maximisers, their point x, and how large what adds up to it is."""
    points = [term.at(w, t) for term in terms]
    images = [term.A.matvec(p.q) for term, p in zip(terms, points, strict=True)]
    x = np.sum(images, axis=0)
    priced = sum(t * term.curve.value(p.q) for term, p in zip(terms, points, strict=True))
    size = sum(float(term.A.sizes(p.q).sum()) for term, p in zip(terms, points, strict=True))
    return float(-(w @ x) - priced), points, x, size


def _in_ball(H: NDArray[np.float64], r: Vec) -> Vec:
    """The least of `v'H v / 2 - r'v` over the unit ball, H positive semidefinite."""
    e, V = np.linalg.eigh(H)
    c = V.T @ r
    top = float(np.linalg.norm(r))
    e = np.maximum(e, 0.0)
    low = np.finfo(float).eps * max(float(e[-1]), top)

    def excess(shift: float) -> float:
        return float(np.linalg.norm(c / (e + shift))) - 1.0

    if excess(low) > 0.0:
        root: Any = brentq(excess, low, 2.0 * top, xtol=1e-300)
        low = float(root)
    return V @ (c / (e + low))
