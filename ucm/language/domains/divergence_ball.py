"""Divergence balls around the uniform distribution: relative entropy, conjugates of losses, chi-square.

All are `{q in the simplex : (1/N) sum c_i phi(N q_i / c_i) <= r}`, c the weights of the samples and N their
sum: Ben-Tal, den Hertog, De Waegenaere, Melenberg and Rennen (2013), Robust solutions of optimization
problems affected by uncertain probabilities.
"""

from __future__ import annotations

import math
from dataclasses import field, replace

import numpy as np
from scipy.special import ndtr, ndtri, xlogy

from ucm import native
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import ROUNDING, SampleWeights, SimplexDomain, Size, exactly_one
from ucm.language.domains.norm_ball import PowerFunction
from ucm.language.domains.separable_constraint import (
    FAR,
    KKTPoint,
    SeparableFunction,
    SimplexSublevelSet,
    scaled,
)
from ucm.language.losses import Exponential
from ucm.language.node import Notation, number_in
from ucm.language.parameter import Scalar, named, subject, value
from ucm.language.terms import ConvexLoss


class ConjugateFunction(SeparableFunction):
    """The divergence `h(q) = (1/N) sum c_i l*(N q_i / c_i)` by the conjugate l* of a loss l.

    It is finite where `0 <= q <= cap c`; N is the sum of the weights c.

    With s = N q, the equations of the domain are those of the contract of the loss:
    `q + lam h'(q) = u` is `s = prox_{lam N l*}(N u)`, and `lam h'(q) = u` is `s = l'(u / lam)`.
    """

    def __init__(self, loss: ConvexLoss, total: float, weights: Vec | None = None) -> None:
        self.loss, self.dim, self.weights = loss, total, weights
        self.steepest = loss.steepest()
        self.cap = self.steepest / total

    def value(self, q: Vec) -> float:
        s = self.dim * q if self.weights is None else self.dim * q / self.weights
        rounded = (s > self.steepest) & (s <= self.steepest * (1.0 + ROUNDING))
        each = self.loss.conjugate(np.where(rounded, self.steepest, s))
        return float(each.sum() if self.weights is None else self.weights @ each) / self.dim

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        n, x, t = self.dim, self.dim * u, lam * self.dim
        s = self.loss.conjugate_prox(x, t)
        return s / n, self.loss.conjugate_prox_slope(x, t, s), (x - s) / t

    def tilt(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        x = u / lam
        s = self.loss.gradient(x)
        # s is the proximal point of s + x for t = 1, whose slope is l'' / (1 + l'')
        slope = self.loss.conjugate_prox_slope(s + x, 1.0, s)
        bend = slope / np.maximum(1.0 - slope, np.finfo(float).eps)
        return s / self.dim, bend / (lam * self.dim), x


class Entropy(ConjugateFunction):
    """The relative entropy `h(q) = sum q_i log(N q_i / c_i)`, N the sum of the weights c.

    It is the divergence of the loss `exp(u) / e`, with l*(s) = s log s.
    """

    exponent = 0.0

    def __init__(self, samples: SampleWeights) -> None:
        c = samples.weights
        unit = 1.0 if c is None else float(c.max())  # then N q / c underflows nowhere
        super().__init__(Exponential() / math.e, samples.total / unit, None if c is None else c / unit)

    def value(self, q: Vec) -> float:
        s = self.dim * q if self.weights is None else self.dim * q / self.weights
        return float(xlogy(q, s).sum())

    def prox(self, u: Vec, lam: float) -> tuple[Vec, Vec, Vec]:
        q, w, _ = super().prox(u, lam)
        return q, w, self._normal(q)  # (u - q) / lam cancels for a small lam

    def _normal(self, q: Vec) -> Vec:
        """Return the gradient h'(q), its entries set to 1 where q is 0."""
        return np.log(np.where(q > 0.0, self.dim * q, 1.0)) + 1.0

    def root(self, v: Vec, samples: SampleWeights, radius: float, least: float, prox: bool) -> KKTPoint:
        """Return the point by compiled code, except with weights, a huge v, or without convergence."""
        reach = float(np.ptp(v))
        if self.weights is None and radius > least + ROUNDING * least and (reach <= FAR or not prox):
            q, unit, found = np.empty_like(v), 1.0, np.ones(4)
            C, labels, limits = native.library, samples.labels, (radius, least)
            if prox:
                C.project_entropy(v.size, v, labels.size, labels, *limits, reach, q, found)
            else:
                g, unit = scaled(v, samples.groups, prox=False)
                C.support_entropy(v.size, g, labels.size, labels, *limits, q, found)
            lam, *theta, converged = found.tolist()
            if converged:
                with np.errstate(over="ignore"):  # the slope in directions next to 0
                    w = q / (q + lam) if prox else q / lam / unit
                levels = tuple(unit * x for x in theta[: len(samples.groups)])
                return KKTPoint(q, w, self._normal(q), unit * lam, levels)
        return super().root(v, samples, radius, least, prox)


class KLBall(SimplexDomain):
    """The relative entropy (KL) ball, `{q >= 0, sum q = 1, sum q_i log(N q_i) <= -log alpha}`.

    N is the number of entries. Weights c of samples make it `sum q_i log(N q_i / c_i)`, N their sum.

    Parameters
    ----------
    alpha : float or Param
        0 < alpha <= 1; the smaller, the larger the ball. With classes of m and n entries at most
        `2 sqrt(m n) / (m + n)`.

    Notes
    -----
    The parameter set of the exponential loss; Ito, Takeda and Toh (2015), section 5.2. The projection is
    `q_i = lam omega((v_i - theta)/lam - 1 - log N - log lam)`, omega the Wright function, theta and
    lam roots of three equations; the support function tilts exponentially.

    Examples
    --------
    >>> import ucm
    >>> ucm.KLBall(0.6).project([1.0, 0.0]).round(4)
    array([0.9554, 0.0446])
    """

    alpha: Scalar = number_in("[0, inf]", "alpha", "write KLBall(0.5)")

    def bind(self, samples: SampleWeights) -> SimplexSublevelSet:
        alpha = value(self.alpha)
        radius = self.size().number if alpha > 0.0 else -math.inf
        return SimplexSublevelSet(self, samples, radius, Entropy(samples))

    def too_small(self, samples: SampleWeights, least: float) -> str:
        must = f"{subject(self.alpha, 'alpha')} must lie in (0, {math.exp(-least):.6g}]"
        return f"{self!r}: empty, {named(self.alpha, 'level')} leaves no point; {must}"

    def size(self) -> Size:
        return Size(self.alpha, lambda alpha: -np.log(alpha), lambda radius: math.exp(-radius))

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        density = samples.density(q)
        match size:
            case float() if size <= 0.0:  # the uniform distribution alone, where a cone has no interior
                return [density == 1.0]
        return [samples.mean(cp.rel_entr(density, 1.0)) <= size]

    def formula(self, notation: Notation) -> str:
        q, log = notation.sub("q", "i"), notation.word("log")
        divergence = notation.sum_over("i", f"{q} {log}({notation.total} {q})")
        return f"{divergence}{notation.leq}-{log} {notation.scalar(self.alpha)}"


def check_slopes(loss: ConvexLoss, where: str) -> None:
    """Raise a `CompositionError` for a loss of one class or group, with perturbations or negative slopes."""
    if loss.moves:
        raise CompositionError(
            f"{where}: expected a loss of the margins, got {brief(loss)}, which perturbs the samples; add a "
            "ball to the set of the loss inside, as Hull(pos) + Ball(0, r)"
        )
    if loss.counted is not None:
        raise CompositionError(
            f"{where}: expected a loss of all samples, got the loss of one class {brief(loss)}; drop `on`, "
            "and name the class in the hull, as Hull(pos, weights=...)"
        )
    if loss.lowest() < 0.0:
        raise CompositionError(
            f"{where}: some weights of samples would be negative, as a slope of {brief(loss)} is; write "
            "SquaredHinge() for LeastSquares()"
        )


class LossBall(SimplexDomain):
    """The conjugate ball of a loss l, `{q >= 0, sum q = 1, (1/N) sum l*(N q_i) <= radius}`.

    N is the number of entries, and l the loss as a function of minus the margin, and without an offset:
    `max(0, u)^p` for `Hinge(p)`. Weights c of samples make it `(1/N) sum c_i l*(N q_i / c_i)`, N their sum.

    Parameters
    ----------
    loss : ConvexLoss
        Or a positive multiple of one, such as `Hinge() / nu`.
    radius : float or Param
        May be negative: at least `l*(1)`; with classes of m and n entries, N = m + n, at least
        `(m/N) l*(N/(2m)) + (n/N) l*(N/(2n))`.
    lam : float or Param, positive
        In place of it, by name: that radius with which the hull has the classifier of the generalised nu-SVM
        `min -rho + (1/m) sum l(rho - margin_i)` over `||w||_2 <= lam`. It is found where the model meets
        data, for `Hull(signed, weights=...)` and `Hull(pos, ...) - Hull(neg, ...)`. From the lam on that
        `ucm.admissible` gives, `||w||_2 <= lam` is inactive, and the solution that of the problem itself.

    Raises
    ------
    CompositionError
        `loss` is no loss, or falls somewhere (`LeastSquares`); both or neither of `radius` and `lam`.

    Notes
    -----
    Ito, Takeda and Toh (2015), section 5.2: the generalised nu-SVM with the loss l, (22), and Lemma 5.
    Projection and support reduce to the proximal map of l* and the derivative of l, with one scalar root for
    the radius and one for each mass.

    Examples
    --------
    >>> import ucm
    >>> ucm.LossBall(ucm.Hinge() / 0.5, 0.0).project([2.0, 0.0, 0.0, 0.0]).round(4)
    array([0.5   , 0.1667, 0.1667, 0.1667])
    """

    loss: ConvexLoss
    radius: Scalar | None = None
    lam: Scalar | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        check_slopes(self.loss, "LossBall")
        exactly_one(f"LossBall({self.loss!r})", radius=self.radius, lam=self.lam)

    @property
    def by_lam(self) -> bool:
        return self.lam is not None

    @property
    def bound(self) -> Scalar:
        """The declared radius; refused if lam is declared in its place, which has one only with data."""
        if self.radius is None:
            raise CompositionError(
                f"{self!r}: expected a radius, got lam, which has one together with data; compile the model "
                "of a hull, whose plan.model has it"
            )
        return self.radius

    def curve(self, samples: SampleWeights) -> ConjugateFunction:
        """Return the divergence `q -> (1/N) sum c_i l*(N q_i / c_i)` over these samples."""
        return ConjugateFunction(self.loss, samples.total, samples.weights)

    def bind(self, samples: SampleWeights) -> SimplexSublevelSet:
        return SimplexSublevelSet(self, samples, value(self.bound), self.curve(samples))

    def too_flat(self, samples: SampleWeights) -> str | None:
        """Return why the ball is empty for all radii, the largest slope below a uniform weight; or None."""
        steepest = self.loss.steepest()
        needed = float((samples.uniform() / samples.c).max()) * samples.total
        if needed <= steepest * (1.0 + ROUNDING):
            return None
        return (
            f"{self!r}: empty on the simplex, the loss has slope at most {steepest:.6g}, and the weights "
            f"need {needed:.6g}; multiply the loss by more than {needed / steepest:.6g}"
        )

    def too_small(self, samples: SampleWeights, least: float) -> str:
        return self.too_flat(samples) or super().too_small(samples, least)

    def size(self) -> Size | None:
        return None if self.radius is None else Size(self.radius)

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        height, within = self.loss.conjugate_cvxpy(samples.density(q))
        return [*within, samples.mean(height) <= (self.bound if size is None else size)]

    def formula(self, notation: Notation) -> str:
        conjugate = f"{notation.power('l', '*')}({notation.total} {notation.sub('q', 'i')})"
        mean = notation.fraction("1", notation.total) + " " + notation.sum_over("i", conjugate)
        if self.radius is None:
            return f"{mean}{notation.leq}r({notation.scalar(self.lam)})"
        return mean + notation.leq + notation.scalar(self.radius)


class ChiSquareBall(SimplexDomain):
    """The chi-square ball around the uniform distribution, `{(1/N) sum (N q_i - 1)^2 <= rho}` on the simplex.

    Give `rho`, or the `level` of a one-sided confidence, which stands for `rho = z(level)^2 / N`, z the
    quantile of the normal distribution: z(0.95)^2 is the quantile 0.9 of chi-square with one degree of
    freedom. N is the number of entries. Weights c of samples make it `(1/N) sum c_i (N q_i / c_i - 1)^2`, N
    their sum; those of classes do not count in the N of a level.

    Parameters
    ----------
    rho : float or Param, >= 0
        The bound. With classes of m and n entries at least `(m - n)^2 / (4 m n)`.
    level : float or Param in [0.5, 1)
        In place of it: a confidence.

    Raises
    ------
    CompositionError
        Both or neither of `rho` and `level`.

    Notes
    -----
    The Euclidean ball around 1/N of radius `sqrt(rho / N)`. Duchi, Glynn and Namkoong (2021), Statistics of
    robust optimization: a generalized empirical likelihood approach, theorem 4: the largest mean over
    the ball of this level is an asymptotic upper bound of the true mean.

    Examples
    --------
    >>> import ucm
    >>> ucm.ChiSquareBall(rho=0.25).support([1.0, 0.0])[0]
    0.75
    >>> print(ucm.ChiSquareBall(level=0.95))
    1/N Σ_{i} (N q_i - 1)^2 ≤ z(0.95)^2/N
    """

    rho: Scalar | None = number_in("[0, inf]", "rho", "write ChiSquareBall(rho=0.5)", default=None)
    level: Scalar | None = None

    def _check(self) -> None:
        _ = self._given

    @property
    def _given(self) -> Scalar:
        return exactly_one("ChiSquareBall", rho=self.rho, level=self.level)

    @property
    def _in_range(self) -> bool:
        x = value(self._given)
        return x >= 0.0 if self.level is None else 0.5 <= x < 1.0

    def _unit(self, samples: SampleWeights) -> float:
        """Return the square of `size / radius`, with the radius of the Euclidean ball around 1/N."""
        return samples.total * (1.0 if self.level is None else samples.count)

    def bind(self, samples: SampleWeights) -> SimplexSublevelSet:
        c = samples.weights
        if c is not None:  # the set is the same for weights in any unit; squares of tiny ones underflow
            samples = replace(samples, weights=c / c.mean(), number=samples.count)
        radius = self.size().number / math.sqrt(self._unit(samples)) if self._in_range else -1.0
        h = PowerFunction(2.0, radius, samples, uniform=True)
        return SimplexSublevelSet(self, samples, radius, h)

    def too_small(self, samples: SampleWeights, least: float) -> str:
        if self._in_range:
            return super().too_small(samples, least * math.sqrt(self._unit(samples)))
        must = "be at least 0" if self.level is None else "lie in [0.5, 1)"
        scalar = self._given
        return f"{self!r}: no ball has {named(scalar, 'size')}; {subject(scalar, 'size')} must {must}"

    def size(self) -> Size:
        if self.level is None:
            return Size(self._given, np.sqrt, np.square)
        return Size(self.level, ndtri, ndtr)

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        N, c = samples.total, samples.weights
        away = N * q - samples.c
        if c is not None:
            away = cp.multiply(c**-0.5, away)
        unit = N if self.level is None else N / samples.count
        return [cp.norm2(away / unit**0.5) <= size]

    def formula(self, notation: Notation) -> str:
        away = notation.power(f"({notation.total} {notation.sub('q', 'i')} - 1)", "2")
        mean = notation.fraction("1", notation.total) + " " + notation.sum_over("i", away)
        if self.level is None:
            return mean + notation.leq + notation.scalar(self._given)
        quantile = notation.power(f"z({notation.scalar(self.level)})", "2")
        return mean + notation.leq + notation.fraction(quantile, notation.total)
