"""Balls of the conjugate of a loss: the parameter sets of generalised nu-SVMs."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Capped, Domain, Size
from ucm.language.domains import curved
from ucm.language.domains.copied import Copied
from ucm.language.domains.simplex import CappedSimplex, WeightedSimplex
from ucm.language.node import Notation, Scalar, Tunable, value
from ucm.language.parameter import named, subject
from ucm.language.terms import ConvexLoss

__all__ = ["LossBall", "SimplexLoss"]


class ConjugateCurve(curved.Curve):
    """`h(q) = (1/N) sum c_i l*(N q_i / c_i)`, finite where `0 <= q <= cap c`; N the number of all copies c.

    With s = N q, the equations of the domain are those of the contract of the loss:
    `q + lam h'(q) = u` is `s = prox_{lam N l*}(N u)`, and `lam h'(q) = u` is `s = l'(u / lam)`.
    """

    def __init__(self, loss: ConvexLoss, dim: float, copies: Vec | None = None) -> None:
        self.loss = loss
        self.dim, self.copies = dim, copies
        self.steepest = loss.steepest()
        self.cap = self.steepest / dim

    @property
    def caps(self) -> Any:
        """The largest entries."""
        return self.cap if self.copies is None else self.cap * self.copies

    def value(self, q: Vec) -> float:
        s = self.dim * q if self.copies is None else self.dim * q / self.copies
        rounded = (s > self.steepest) & (s <= self.steepest * (1.0 + masses.ROUNDING))
        each = self.loss.conjugate(np.where(rounded, self.steepest, s))
        return float(each.sum() if self.copies is None else self.copies @ each) / self.dim

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        n, x, t = self.dim, self.dim * u, lam * self.dim
        s = self.loss.conjugate_prox(x, t)
        return s / n, self.loss.conjugate_prox_slope(x, t, s), (x - s) / t

    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        x = u / lam
        s = self.loss.gradient(
            x
        )  # the proximal point of s + x for t = 1, whose slope is l'' / (1 + l'')
        slope = self.loss.conjugate_prox_slope(s + x, 1.0, s)
        bend = slope / np.maximum(1.0 - slope, np.finfo(float).eps)
        return s / self.dim, bend / (lam * self.dim), x


class LossBall(Copied):
    """The conjugate ball of a loss, `{q : (1/N) sum l*(N q_i) <= radius}`, N the number of entries.

    l is the loss as a function of minus the margin, and without an offset: `max(0, u)^p` for
    `Hinge(p)`. The ball has an exact projection only together with the simplex (`on_simplex`).

    Parameters
    ----------
    loss : ConvexLoss
        Or a positive multiple of one, such as `Hinge() / nu`.
    radius : float or Param
        May be negative: at least `-l(0)`.
    copies : (N,) array, optional
        How often each entry counts; None for once.
    lam : float or Param, positive
        In place of it, by name: that radius with which the hull has the classifier of the generalised nu-SVM
        `min -rho + (1/m) sum l(rho - margin_i)` over `||w||_2 <= lam`. It is found where the model meets
        data, for `Hull(signed, weights=...)` and `Hull(pos, ...) - Hull(neg, ...)`.

    Raises
    ------
    CompositionError
        `loss` is no loss, or falls somewhere (`LeastSquares`); both or neither of `radius` and `lam`.

    Notes
    -----
    Ito, Takeda and Toh (2015), section 5.2: the generalised nu-SVM with the loss l, (22), and Lemma 5.

    Examples
    --------
    >>> import ucm
    >>> ucm.LossBall(ucm.Hinge() / 0.5, 0.0).on_simplex().project([2.0, 0.0, 0.0, 0.0]).round(4)
    array([0.5   , 0.1667, 0.1667, 0.1667])
    """

    loss: ConvexLoss
    radius: Scalar | None = None
    lam: Scalar | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, self.loss)
        for name, given in (("radius", self.radius), ("lam", self.lam)):
            if not isinstance(given, float | Tunable | None):
                raise CompositionError(
                    f"LossBall: {name}: expected a real number or a Param, got {brief(given)}; write 0.3 or "
                    f"Param({name!r}, 0.3)"
                )
        if (self.radius is None) == (self.lam is None):
            raise CompositionError(
                f"LossBall({self.loss!r}): expected one of radius and lam, got radius={self.radius!r} and "
                f"lam={self.lam!r}; give one of them"
            )

    @property
    def bound(self) -> Scalar:
        """The radius.

        Raises
        ------
        CompositionError
            There is none yet, as the ball is given by lam.
        """
        if self.radius is None:
            raise CompositionError(
                f"{self!r}: expected a radius, got lam, which has one together with data; compile the model "
                "of a hull, whose plan.model has it"
            )
        return self.radius

    def curve(self, dim: int) -> ConjugateCurve:
        """The mean of l*."""
        return ConjugateCurve(self.loss, self.count(dim), self.copies)

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        curve = self.curve(g.size)
        radius = value(self.bound)
        rest = self.center(g.size)  # where l* is smallest
        with np.errstate(invalid="ignore"):
            flat = np.where(g > 0.0, curve.caps, np.where(g < 0.0, 0.0, rest))
        if np.isfinite(flat).all() and curve.value(flat) <= radius:
            return float(g @ flat), flat
        least = curve.value(rest)
        if radius <= least:
            return float(g @ rest), rest
        q = curved.solve(curve, g, [], radius, least, prox=False).q
        return float(g @ q), q

    def _pinned(self, dim: int) -> bool:
        """Whether the centre is the only point: near it powers of l* do not tell others from it."""
        if value(self.bound) > self.curve(dim).value(self.center(dim)):
            return False
        ends = [self.support(s * np.ones(dim))[1] for s in (1.0, -1.0)]
        return all(np.array_equal(q, self.center(dim)) for q in ends)

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        """How far the mean of l* is above its bound, and how far q is outside the domain of l*; from the only
        point where there is one."""
        q, radius = masses.vector(q), value(self.bound)
        if self._pinned(q.size):
            return masses.snap(float(np.abs(q - self.center(q.size)).sum()))
        curve = self.curve(q.size)
        inside = np.clip(q, 0.0, curve.caps)
        scale = min(curve.cap, 1.0)
        outside = float(np.abs(q - inside).sum()) / scale if scale > 0.0 else 0.0
        return masses.snap(max((curve.value(inside) - radius) / max(abs(radius), 1.0), outside))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        share = float(self.loss.gradient(np.zeros(1))[0]) / self.count(dim)
        return np.full(dim, share) * self.c

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        why = self.miscounted(dim)
        if why is not None:
            return why
        least = self.curve(dim).value(self.center(dim))
        return _emptiness(self.bare, self.bound, least)

    def size(self) -> Size | None:
        return None if self.radius is None else Size(self.radius)

    def constraints(
        self, q: cp.Expression, size: Any, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        size = self.bound if size is None else size
        told = isinstance(size, float) and isinstance(q.size, int)  # not in source text
        if told and self._pinned(q.size):
            return [q == self.center(q.size)]
        count = self.count(q.size)
        if self.copies is None:
            height, inside = self.loss.conjugate_cvxpy(count * q)
            return [*inside, cp.sum(height) / count <= size]
        height, inside = self.loss.conjugate_cvxpy(cp.multiply(count / self.copies, q))
        return [*inside, self.copies @ height / count <= size]

    def on_simplex(self) -> Domain | None:
        return SimplexLoss(self.loss, self.bound, copies=self.copies)

    def formula(self, notation: Notation) -> str:
        c = "" if self.copies is None else notation.sub("c", "i")
        over = f"/{c}" if c else ""
        conjugate = (
            f"{c} " * bool(c) + notation.power("l", "*") + f"(N {notation.sub('q', 'i')}{over})"
        )
        mean = notation.fraction("1", "N") + " " + notation.sum_over("i", conjugate)
        if self.radius is None:
            return f"{mean}{notation.leq}r({notation.scalar(self.lam)})"
        return mean + notation.leq + notation.scalar(self.radius)


class SimplexLoss(curved.CutSimplex):
    """Simplex and conjugate ball, `{q >= 0, sum q = 1, (1/N) sum l*(N q_i) <= radius}`.

    Parameters
    ----------
    loss : ConvexLoss
    radius : float or Param
        At least `l*(1)`; with classes of m and n entries, N = m + n,
        at least `(m/N) l*(N/(2m)) + (n/N) l*(N/(2n))`.

    Raises
    ------
    CompositionError
        `loss` is no loss, or falls somewhere (`LeastSquares`).

    Notes
    -----
    Ito, Takeda and Toh (2015), section 5.2. Projection and support reduce to the proximal map of l*
    and the derivative of l, with one scalar root for the radius and one for each mass.

    Examples
    --------
    >>> import ucm
    >>> from ucm.domains import SimplexLoss
    >>> SimplexLoss(ucm.Hinge() / 0.5, 0.0).emptiness(4) is None
    True
    """

    loss: ConvexLoss
    radius: Scalar

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, self.loss)

    def ball(self) -> LossBall:
        return LossBall(self.loss, self.radius, copies=self.copies)

    def around(self, dim: int) -> Capped | WeightedSimplex:
        cap = self.loss.steepest() / self.count(dim)
        return CappedSimplex(cap) if self.copies is None else WeightedSimplex(cap, self.copies)

    def _solve(self, v: Vec, classes: Vec | None, *, prox: bool) -> tuple[Vec, curved.Point | None]:
        curve = ConjugateCurve(self.loss, self.count(v.size), self.copies)
        radius = value(self.radius)
        parts = masses.groups(v.size, classes)
        return self._cut(
            v, classes, prox, curve.value, radius,
            lambda least: curved.solve(curve, v, parts, radius, least, prox=prox), masses.ROUNDING,
        )  # fmt: skip

    def _pinned(self, dim: int, classes: Vec | None) -> bool:
        return False

    def _too_small(self, dim: int, classes: Vec | None) -> str | None:
        ball = self.ball()
        curve = ball.curve(dim)
        q = masses.uniform(dim, classes, self.copies)
        most = float((q / self.c).max())
        if most <= curve.cap * (1.0 + masses.ROUNDING):
            return _emptiness(ball.bare, self.radius, curve.value(q))
        slope, needed = curve.cap * curve.dim, most * curve.dim
        return (
            f"{ball.bare!r}: empty on the simplex, the loss has slope at most {slope:.6g}, and the weights "
            f"need {needed:.6g}; multiply the loss by more than {needed / slope:.6g}"
        )


def _check(node: Domain, loss: Any) -> None:
    if not isinstance(loss, ConvexLoss):
        raise CompositionError(
            f"{type(node).__name__}: expected a convex loss, got {brief(loss)}; write for example "
            "Hinge() / 0.5"
        )
    if loss.counted is not None:
        raise CompositionError(
            f"{type(node).__name__}: expected a loss of all samples, got {brief(loss)}; the hull says whose "
            "samples there are, as Hull(pos, weights=...)"
        )
    if loss.lowest() < 0.0:
        raise CompositionError(
            f"{type(node).__name__}: weights are not negative, so that the slopes of the loss must not be, "
            f"got {brief(loss)}; write SquaredHinge() for LeastSquares()"
        )


def _emptiness(node: Domain, radius: Scalar, least: float) -> str | None:
    if value(radius) >= least - masses.ROUNDING * max(abs(least), 1.0):
        return None
    return (
        f"{node!r}: empty, {named(radius, 'radius')} is below the smallest mean of the "
        f"conjugate; {subject(radius, 'radius')} must be at least {least:.6g}"
    )
