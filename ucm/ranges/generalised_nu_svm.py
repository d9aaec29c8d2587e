"""The generalised nu-SVM with the bound `||w|| <= lam`: optimum bounds, radius of the set, CVXPY problem.

    min over ||w||_2 <= lam, b, rho of -rho + (1/N) sum_i c_i l_i(rho - y_i (w'x_i + b)),

N the sum of the weights c_i, l_i the loss of the class of a sample: (22), (40), (44) and (48) of Ito, Takeda
and Toh (2015). For fixed w it is one scalar problem for each class, in `rho - b` and `rho + b`, whose slopes
q are weights of sum 1/2 on this class. They bound the optimum from below:

    -h(q) - lam ||sum_i q_i y_i x_i||,    h(q) = (1/N) sum_i c_i l_i*(N q_i / c_i).

The optimum is minus the least `h(q) + lam ||Z q||`, Z of columns `y_i x_i`. By Lemma 5 an optimal q is the
nearest point of the hull whose weights have `h <= h(q)`: `radius_from_lambda` computes this radius. With a
multiplier mu the bound `||w|| <= lam` is the ridge `mu ||w||^2 / 2`, and `mu w = Z q`: mu is a scalar root.
Where mu is 0, 0 lies on the boundary of that hull and the bound is inactive. The paper says w = 0 for every
lam beyond some lam_max; in fact w is the same nonzero vector for all these lam, from the problem without a
ridge.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root_scalar

from ucm.data.bound_data import Data, with_column
from ucm.data.deadline import check_time
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError
from ucm.evidence.certificate import bracket, fault
from ucm.forms.bound import BallNormal, SampleDual, lower_bound
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.solution import Certificate
from ucm.forms.solver import Answer, Solver
from ucm.language import cvx as cp
from ucm.language.domains import LossBall
from ucm.language.domains.divergence_ball import ConjugateFunction
from ucm.language.domains.separable_constraint import soft
from ucm.language.losses import Hinge
from ucm.language.objective import ScaledPenalty, split_scalar
from ucm.language.parameter import Param, Parameters, Scalar, Scope, value
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.quadratic import Quadratic
from ucm.language.robust import RobustMargin
from ucm.language.sets import Hull
from ucm.language.sets.combination import summands
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.terms import ConvexLoss, loss_cvxpy
from ucm.numerics.coordinates import OrthonormalCoordinates, SpanCoordinates, span_of
from ucm.solvers import ProxALM, ProxNewton

_ACCURACY = 1e-12  # relative, of the problem with a ridge
_MOST = 2000  # order of its linear systems


class LossOfClass(NamedTuple):
    """The samples of one class, their label and weights, and the part of h(q) of the class with its loss."""

    rows: NDArray[np.intp]
    sign: float
    c: Vec
    h: ConjugateFunction


@dataclass(frozen=True)
class Bounds:
    """Primal and dual bounds of the optimum at a normal w, with the best b and rho for this w.

    Attributes
    ----------
    certificate : of the optimum, with the objective at (w, b, rho) as its primal value
    w, b, rho : the normal, no longer than lam, and the best b and rho for it
    q : (m,) weights of sum 1/2 on each class, by default the slopes at (w, b, rho)
    """

    certificate: Certificate
    w: Vec
    b: float
    rho: float
    q: Vec


class GeneralisedNuSVM:
    """The generalised nu-SVM of a model declared by `lam`, with the ridge `mu ||w||^2 / 2` as `Composite`.

    `min -rho + (1/N) sum c_i l_i(rho - margin_i) + mu ||w||^2 / 2` over w, b and rho.

    A further feature `-y_i` has the weight `rho - o`, o the offset of the losses, and -rho is a linear term.
    The samples are divided by a power of 2, and are in coordinates of their span if there are fewer samples
    than features.

    Attributes
    ----------
    declared : the model with lam
    hulls : its hulls, one of all samples, or those of class +1 and class -1
    lam : the bound of `||w||`
    model : with radii, `Param`s, in place of every lam; from `solved`
    active : True if `||w|| = lam`; else 0 lies on the boundary of the set with these radii; from `solved`
    w : (n,) the optimal normal; None if the radius does not depend on w; from `solved`

    Raises
    ------
    CompositionError
        The hulls are not those of (22), or have two lams, or a loss of one class is no p-hinge with p > 1.
    ParameterError
        lam is not positive.
    """

    model: RobustMargin
    active: bool
    w: Vec | None

    def __init__(self, declared: RobustMargin, data: Data) -> None:
        pairs = list(summands(declared.set))
        hulls = [(V, L) for V, L in pairs if isinstance(V, Hull)]
        self.hulls = sorted((V for V, _ in hulls), key=lambda V: V.samples == neg)
        self.balls = [V.weights for V in self.hulls if isinstance(V.weights, LossBall)]
        bounds: list[Scalar] = [ball.lam for ball in self.balls if ball.lam is not None]
        signs = {V.samples: L for V, L in hulls}
        accepted = len(bounds) == len(pairs) and signs in ({signed: 1.0}, {pos: 1.0, neg: -1.0})
        if not accepted or declared.norm != 2.0:
            raise CompositionError(
                f"lam: expected Hull(signed, weights=LossBall(loss, lam=...)) or such hulls of pos and of "
                f"neg, Hull(pos, ...) - Hull(neg, ...), in the Euclidean norm, got {declared!r}; give the "
                "radius"
            )
        self.declared, self.data = declared, data
        self.unit = math.ldexp(1.0, max(math.frexp(data.scale)[1], -1000))  # of the samples of the form
        self.bound, lams = bounds[0], [value(lam) for lam in bounds]
        self.lam = lams[0]
        if len(set(lams)) > 1:
            raise CompositionError(
                f"lam: expected one lam for both classes, as ||w|| has one bound, got {lams[0]:g} and "
                f"{lams[1]:g}; give both the same, and multiply a loss to weigh its class"
            )
        if not 0.0 < self.lam < math.inf:
            raise ParameterError(f"lam: expected a positive number, got {self.lam:g}; write one, as 1.0")

    @functools.cached_property
    def classes(self) -> list[LossOfClass]:
        """The loss, the samples and the weights of class +1 and of class -1.

        Raise `CompositionError` for a loss of one class that is no p-hinge with p > 1, `EmptySetError` where
        the slopes of the loss are too small for any radius.
        """
        classes, data = [], self.data
        bound = [hull.samples.bound(data) for hull in self.hulls]
        N = sum(samples.total for samples in bound)
        for hull, ball, samples in zip(self.hulls, self.balls, bound, strict=True):
            base = split_scalar(ball.loss)[1]
            if len(bound) > 1 and not (isinstance(base, Hinge) and base.p > 1.0):
                raise CompositionError(
                    f"lam: expected the loss of one class to be Hinge(p) with p > 1, got {ball.loss!r}, "
                    "whose balls are others with the number of samples; take Hull(signed, ...)"
                )
            why = samples.missing(hull) or ball.too_flat(samples)
            if why is not None:
                raise EmptySetError(f"{hull!r}: {why.partition(': ')[2]}")
            rows = np.arange(data.m) if samples.rows is None else samples.rows
            c = np.ones(rows.size) * samples.c
            for sign in (1.0, -1.0):
                mask = data.y[rows] == sign
                if mask.any():
                    h = ConjugateFunction(ball.loss, N, c[mask])
                    classes.append(LossOfClass(rows[mask], sign, c[mask], h))
        return classes

    @functools.cached_property
    def terms(self) -> list[tuple[ConvexLoss, Vec]]:
        """The distinct losses, each with the weights `c_i / N` of its samples, (m,), 0 for the others."""
        weights: dict[ConvexLoss, Vec] = {}
        for one in self.classes:
            weights.setdefault(one.h.loss, np.zeros(self.data.m))[one.rows] = one.c / one.h.dim
        return list(weights.items())

    def best_thresholds(self, scores: Vec) -> tuple[Vec, float, float]:
        """Return the optimal weights q, of sum 1/2 on each class, b and rho for fixed scores `w'x_i`.

        The thresholds are `rho - b` for class +1 and `rho + b` for class -1.
        """
        q, thresholds = np.zeros(scores.size), {}
        for one in self.classes:
            point = soft(one.h, -one.sign * scores[one.rows], [(slice(None), 0.5)], 1.0)
            q[one.rows], thresholds[one.sign] = point.q, -point.theta[0]
        plus, minus = thresholds[1.0], thresholds[-1.0]
        return q, 0.5 * (minus - plus), 0.5 * (plus + minus)

    def bounds(self, w: Vec, weights: Vec | None = None) -> Bounds:
        """Return primal and dual bounds of the optimum at w, which is shortened to `||w|| <= lam`.

        Given `weights` of sum 1/2 on each class replace those of w in the dual bound.
        """
        data, size = self.data, self.data.space.norm(w)
        w = w * min(1.0, self.lam / size) if size > 0.0 else w
        scores = np.asarray(data.X @ w).ravel()
        q, b, rho = self.best_thresholds(scores)
        dual = q if weights is None else weights
        offset = self.classes[0].h.loss.offset
        margins = offset + data.y * (scores + b) - rho
        mean = sum(loss.value(margins, None, c) for loss, c in self.terms)
        point = SampleDual(self.terms, data.y, margins, dual, None, 0.5)
        normal = BallNormal(data.X, w, lam=self.lam)
        bound, outside = lower_bound(point, normal, CombinedPenalty(()), np.zeros(data.n))
        primal, least = mean - rho, bound - offset  # rho - o is the variable
        terms_size = abs(rho) + abs(mean)
        unit = max(abs(primal), abs(least) if np.isfinite(least) else 0.0, 1e-9 * terms_size, 1e-300)
        certificate = bracket(
            primal, least, outside, unit, rounding=1e-14 * terms_size, size=unit,
            wrong=f"a dual point above the primal one); {fault('the conjugate of a loss', self.declared)}",
        )  # fmt: skip
        return Bounds(certificate, w, b, rho, dual)

    def reference_problem(self, scaled: bool = True) -> cp.Problem:
        """Return the generalised nu-SVM in w (times max |X| if `scaled`), b and rho as a problem of CVXPY.

        It is vectorised and DPP, with a `cvxpy.Parameter` for every hyperparameter.
        """
        scope = Parameters()
        total, constraints = self.expressions(scope, self.data.scale if scaled else 1.0)
        return cp.Problem(cp.Minimize(total + scope.zero()), constraints)

    def expressions(self, scope: Scope, scale: float) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the objective in `scale w`, b, rho and margins t; the equation of t, and the bound of w."""
        data = self.data
        omega = cp.Variable(data.n, name="w" if scale == 1.0 else f"{scale:.3g} w")
        b, rho, t = cp.Variable(name="b"), cp.Variable(name="rho"), cp.Variable(data.m, name="t")
        total = -rho + sum(loss_cvxpy(loss, loss.offset + t - rho, c, scope) for loss, c in self.terms)
        return total, [
            t == cp.multiply(data.y, (data.X / scale) @ omega + b),
            cp.norm(omega / scale, 2) <= scope.of(self.bound),
        ]

    # --- the problem with a ridge, and the radius of lam -------------------------------------------
    @functools.cached_property
    def span(self) -> SpanCoordinates | OrthonormalCoordinates | None:
        """The coordinates of the form if there are more features than samples; else None."""
        if self.data.n <= self.data.m:
            return None
        return span_of(self.data.X * (1.0 / self.unit))

    @functools.cached_property
    def samples(self) -> Matrix:
        """The samples in units and coordinates of the form."""
        return self.data.X * (1.0 / self.unit) if self.span is None else self.span.tables[0]

    @functools.cached_property
    def form(self) -> Composite:
        """The problem without a ridge over (w, rho - o); refused for more than 2,000 features and samples."""
        data = self.data
        if min(data.n, data.m) > _MOST:
            raise ParameterError(
                f"lam: expected at most {_MOST:,} features or as many samples, got {data.n:,} and "
                f"{data.m:,}; give the radius"
            )
        losses, weights = zip(*self.terms, strict=True)
        table = with_column(self.samples, -data.y)
        slope = LinearTerm(np.zeros(data.m), np.eye(1, table.shape[1], table.shape[1] - 1).ravel())
        return Composite(table, data.y, losses, (), weights, tilt=slope)

    def normal(self, v: Vec) -> Vec:
        """Return the normal w in the features from the variable (w, rho - o) of the form."""
        w = v[: self.samples.shape[1]]
        return (w if self.span is None else self.span.outward(w)) / self.unit

    def start(self, w: Vec) -> Answer:
        """Return a warm start (w, rho - o), b for a normal w in the features, with optimal b and rho."""
        v = w * self.unit if self.span is None else self.span.inward(w * self.unit)
        _, b, rho = self.best_thresholds(self.samples @ v)
        return Answer(w=np.append(v, rho - self.classes[0].h.loss.offset), b=b)

    def at_norm(self, lam: float) -> tuple[Vec, bool]:
        """Return the optimal w under `||w|| <= lam` in coordinates of the form; True if the bound is active.

        If active, mu is the root of `lam / ||w|| - 1`, which is nearly linear in mu.
        """
        form, n = self.form, self.samples.shape[1]
        square = Quadratic(np.diag(np.append(np.ones(n), 0.0)))
        smooth = all(loss.smooth() for loss in form.losses)
        solver: Solver[Composite] = ProxNewton() if smooth else ProxALM()

        def ridged(mu: float) -> Composite:
            return replace(form, penalties=(ScaledPenalty(0.5 * mu, square),))

        session, answer = solver.session(ridged(1.0)), None

        @functools.cache
        def at(mu: float) -> tuple[Vec, float]:
            nonlocal answer
            answer = session.solve(ridged(mu), Monitor.within_limit(_ACCURACY), answer)
            check_time()
            v = answer.plane[0][:n]
            return v, float(np.linalg.norm(v))

        uniform = np.zeros(form.m)
        for one in self.classes:
            uniform[one.rows] = 0.5 * one.c / one.c.sum()
        # the distance of the weighted class means is mu ||w|| for a large mu
        distance = float(np.linalg.norm(self.samples.T @ (form.y * uniform)))
        upper = mu = distance / min(lam, 1.0)
        if mu == 0.0:
            return np.zeros(n), False
        while at(mu)[1] < lam and mu * at(mu)[1] > 1e-12 * distance:  # a distance this small counts as 0
            upper, mu = mu, 1e-3 * mu
        if at(mu)[1] < lam:
            return at(mu)[0], False
        if upper > mu:
            root = root_scalar(
                lambda mu: lam / at(mu)[1] - 1.0, bracket=(mu, upper), xtol=1e-300, rtol=_ACCURACY
            )
            mu = float(root.root)
        v, size = at(mu)
        return v * (lam / size), True

    def norm_without_bound(self) -> tuple[float, bool]:
        """Return `||w||` of the solution without the bound `||w|| <= lam`; True if w separates the classes.

        The norm is inf if w separates the classes, or if the norm exceeds 1e12 in units of the samples.
        """
        v, endless = self.at_norm(1e12)  # in units of the samples, a norm without bound
        scores = self.data.y * (self.samples @ v)
        least = sum(float(scores[self.data.y == sign].min()) for sign in (1.0, -1.0))
        separates = least > 1e-12 * float(np.abs(scores).max())
        return math.inf if endless or separates else float(np.linalg.norm(v)) / self.unit, separates

    def solved(self) -> Self:
        """Set the radii, the optimal normal, and whether the bound is active; return the problem."""
        data, hulls = self.data, self.hulls
        self.active, self.w, radii, classes = True, None, [0.0] * len(hulls), self.classes
        # of a multiple of the hinge loss l* is 0 wherever it is finite
        if any(one.h.loss.slope() is None for one in classes):
            bound = min(max(self.lam * self.unit, 1e-100), 1e100)
            v, self.active = self.at_norm(bound)
            q = self.best_thresholds(self.samples @ v)[0]
            x = self.samples.T @ (data.y * q)
            distance = float(np.linalg.norm(x))
            gap = distance - float(v @ x) / bound
            if self.active and not gap <= 1e-6 * distance < math.inf:
                raise SolverError(
                    f"lam: the radius of lam = {self.lam:g} was not found, its relative gap is "
                    f"{gap / distance:.2g}; scale the features, or give the radius"
                )
            self.w, radii = self.normal(v), []
            for hull, ball in zip(hulls, self.balls, strict=True):
                samples = hull.samples.bound(data)
                class_weights = len(hulls) * (q if samples.rows is None else q[samples.rows])
                radii.append(ball.curve(samples).value(class_weights))
        each = []
        for hull, ball, radius in zip(hulls, self.balls, radii, strict=True):
            word = "radius" if hull.samples == signed else f"radius_{hull.samples.tag}"
            while word in self.declared.params():
                word += "_of_lam"
            each.append(replace(hull, weights=LossBall(ball.loss, Param(word, radius))))
        self.model = replace(self.declared, set=each[0] if len(each) == 1 else each[0] - each[1])
        return self


def radius_from_lambda(model: RobustMargin, data: Data) -> GeneralisedNuSVM:
    """Return the solved problem of a model declared by lam; cached in the data.

    Raises as `GeneralisedNuSVM`, its `classes`, `form` and `solved`.
    """
    return model.once("radii", lambda: GeneralisedNuSVM(model, data).solved(), data)
