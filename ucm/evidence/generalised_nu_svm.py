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
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from ucm.data.bound_data import Data
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.solution import Certificate
from ucm.forms.solver import Solver
from ucm.language import cvx as cp_words
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import LossBall
from ucm.language.domains.divergence_ball import ConjugateFunction
from ucm.language.domains.separable_constraint import soft
from ucm.language.losses import Hinge
from ucm.language.objective import ScaledPenalty, split_scalar
from ucm.language.parameter import Param, Parameters, value
from ucm.language.penalties.quadratic import Quadratic
from ucm.language.robust import RobustMargin
from ucm.language.sets import Hull
from ucm.language.sets.combination import summands
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.terms import ConvexLoss, loss_cvxpy
from ucm.solvers import ProxALM, ProxNewton
from ucm.solvers.coordinates import GramCoordinates, OrthonormalCoordinates, Span

if TYPE_CHECKING:
    import cvxpy as cp

_GAP = 1e-6  # relative, of the distance
_ACCURACY = 1e-12  # relative, of the problem with a ridge
_MOST = 2000  # order of its linear systems
_INACTIVE = 1e-12  # times the distance of the class means: a distance that counts as 0
_FALL = 1e-3  # factor of mu until its root is enclosed
_LONG = 1e12  # in units of the samples: a bound of the norm that stands for none


@dataclass(frozen=True)
class LossOfClass:
    """The loss, the samples and the weights of one class.

    Attributes
    ----------
    rows : (m_o,) the indices of the samples
    sign : the label
    loss : the declared loss
    c : (m_o,) the weights
    h : the part of h(q) of the class
    """

    rows: NDArray[np.intp]
    sign: float
    loss: ConvexLoss
    c: Vec
    h: ConjugateFunction


@dataclass(frozen=True)
class Bounds:
    """Primal and dual bounds of the optimum at a normal w, with the best b and rho for this w.

    Attributes
    ----------
    certificate : of the optimum, with the objective at (w, b, rho) as its primal value
    w, b, rho : the normal, no longer than lam, and the best b and rho for it
    q : (m,) weights of sum 1/2 on each class, the slopes at (w, b, rho)
    """

    certificate: Certificate
    w: Vec
    b: float
    rho: float
    q: Vec


def by_lam(node: object) -> bool:
    """True if the node is a `LossBall` declared by `lam` in place of a radius."""
    return isinstance(node, LossBall) and node.lam is not None


def ball_of(hull: Hull) -> LossBall:
    """Return the `LossBall` that holds the weights of a hull."""
    return hull.weights  # type: ignore[return-value]


def hulls_by_lam(model: RobustMargin) -> list[Hull]:
    """Return the hulls of a generalised nu-SVM: one of all samples, or those of class +1 and class -1.

    Raises
    ------
    CompositionError
        The model has another set or another norm.
    """
    pairs = list(summands(model.set))
    signs = {V.samples: L for V, L in pairs if isinstance(V, Hull) and by_lam(V.weights)}
    accepted = len(signs) == len(pairs) and signs in ({signed: 1.0}, {pos: 1.0, neg: -1.0})
    if not accepted or model.norm != 2.0:
        raise CompositionError(
            f"lam: expected Hull(signed, weights=LossBall(loss, lam=...)) or such hulls of pos and of neg, "
            f"Hull(pos, ...) - Hull(neg, ...), in the Euclidean norm, got {model!r}; give the radius"
        )
    hulls: list[UncertaintySet] = [V for V, _ in pairs]
    return sorted(hulls, key=lambda V: V.samples == neg)  # type: ignore[attr-defined, return-value]


def lam_of(hulls: list[Hull]) -> float:
    """Return the common lam of the hulls, a positive number."""
    lams = [value(ball_of(hull).lam) for hull in hulls]  # type: ignore[arg-type]
    if len(set(lams)) > 1:
        raise CompositionError(
            f"lam: expected one lam for both classes, as ||w|| has one bound, got {lams[0]:g} and "
            f"{lams[1]:g}; give both the same, and multiply a loss to weigh its class"
        )
    if not 0.0 < lams[0] < math.inf:
        raise ParameterError(f"lam: expected a positive number, got {lams[0]:g}; write one, as 1.0")
    return lams[0]


def losses_of(hulls: list[Hull], data: Data) -> list[LossOfClass]:
    """Return the `LossOfClass` of class +1 and of class -1.

    Raises
    ------
    CompositionError
        The loss of one class is no p-hinge with p > 1.
    EmptySetError
        The slopes of the loss are too small for any radius.
    """
    classes = []
    bound = [hull.samples.bound(data) for hull in hulls]
    N = sum(samples.total for samples in bound)
    for hull, samples in zip(hulls, bound, strict=True):
        ball = ball_of(hull)
        base = split_scalar(ball.loss)[1]
        if len(hulls) > 1 and not (isinstance(base, Hinge) and base.p > 1.0):
            raise CompositionError(
                f"lam: expected the loss of one class to be Hinge(p) with p > 1, got {ball.loss!r}, whose "
                "balls are others with the number of samples; take Hull(signed, ...)"
            )
        why = samples.missing(hull) or ball.too_flat(samples)
        if why is not None:
            raise EmptySetError(f"{hull!r}: {why.partition(': ')[2]}")
        rows = hull.samples.rows(data)
        rows = np.arange(data.m) if rows is None else rows
        c = np.ones(rows.size) * samples.c
        for sign in (1.0, -1.0):
            mask = data.y[rows] == sign
            if mask.any():
                h = ConjugateFunction(ball.loss, N, c[mask])
                classes.append(LossOfClass(rows[mask], sign, ball.loss, c[mask], h))
    return classes


def best_thresholds(classes: list[LossOfClass], scores: Vec) -> tuple[Vec, dict[float, float], float]:
    """Return the optimal weights q for fixed scores `w'x_i`, the thresholds by label, and h(q).

    The thresholds are `rho - b` for class +1 and `rho + b` for class -1; q has the sum 1/2 on each class.
    """
    q, thresholds, height = np.zeros(scores.size), {}, 0.0
    for one in classes:
        point = soft(one.h, -one.sign * scores[one.rows], [(slice(None), 0.5)], 1.0)
        q[one.rows], thresholds[one.sign] = point.q, -point.theta[0]
        height += one.h.value(point.q)
    return q, thresholds, height


def bounds(model: RobustMargin, data: Data, w: Vec, weights: Vec | None = None) -> Bounds:
    """Return primal and dual bounds of the optimum at w, which is shortened to `||w|| <= lam`.

    Given `weights` of sum 1/2 on each class replace those of w in the dual bound.
    """
    hulls = hulls_by_lam(model)
    lam, classes = lam_of(hulls), losses_of(hulls, data)
    size = data.space.norm(w)
    w = w * min(1.0, lam / size) if size > 0.0 else w
    scores = np.asarray(data.X @ w).ravel()
    q, thresholds, height = best_thresholds(classes, scores)
    mean = outside = 0.0
    for one in classes:
        margins = one.loss.offset + one.sign * scores[one.rows] - thresholds[one.sign]
        mean += float(one.c @ one.loss.each(margins)) / one.h.dim
    dual = q if weights is None else weights
    if weights is not None:
        height = 0.0
        for one in classes:
            q_class = weights[one.rows]
            off = abs(2.0 * float(q_class.sum()) - 1.0), -2.0 * float(np.minimum(q_class, 0.0).sum())
            outside = max(outside, *off)
            height += one.h.value(q_class)
    rho, b = 0.5 * (thresholds[1.0] + thresholds[-1.0]), 0.5 * (thresholds[-1.0] - thresholds[1.0])
    x = np.asarray(data.X.T @ (dual * data.y)).ravel()
    primal, least = mean - rho, -height - lam * data.space.norm(x)
    gap = primal - least
    unit = max(abs(primal), abs(least) if np.isfinite(least) else 0.0, 1e-9 * (abs(rho) + abs(mean)))
    certificate = Certificate(primal, least, gap, gap / max(unit, 1e-300), outside)
    return Bounds(certificate, w, b, rho, q)


def reference_problem(model: RobustMargin, data: Data, scaled: bool = True) -> cp.Problem:
    """Return the generalised nu-SVM in w, b and rho as a DPP problem of CVXPY.

    It is vectorised and has a `cvxpy.Parameter` for every hyperparameter.

    Parameters
    ----------
    scaled : True if the variable is w times max |X|
    """
    cp, scope, hulls = cp_words, Parameters(), hulls_by_lam(model)
    scale = data.scale if scaled else 1.0
    omega = cp.Variable(data.n, name=f"{scale:.3g} w" if scaled else "w")
    b, rho, t = cp.Variable(name="b"), cp.Variable(name="rho"), cp.Variable(data.m, name="t")
    total: Any = -rho
    for one in losses_of(hulls, data):
        c = np.zeros(data.m)
        c[one.rows] = one.c / one.h.dim
        total += loss_cvxpy(one.loss, one.loss.offset + t - rho, c, scope)
    bound = scope.of(ball_of(hulls[0]).lam)  # type: ignore[arg-type]
    constraints = [
        t == cp.multiply(data.y, (data.X / scale) @ omega + b),
        cp.norm(omega / scale, 2) <= bound,
    ]
    return cp.Problem(cp.Minimize(total + scope.zero()), constraints)


# --- the radius of lam ------------------------------------------------------------------------------
@dataclass(frozen=True)
class KnownRadius:
    """A model with radii in place of lam, with the optimal normal w.

    Attributes
    ----------
    model : with radii, `Param`s, in place of every lam
    active : True if `||w|| = lam`; else 0 lies on the boundary of the set with these radii
    w : (n,) the optimal normal; None if the radius does not depend on w
    """

    model: RobustMargin
    active: bool
    w: Vec | None


class NormProblem:
    """The generalised nu-SVM with the ridge `mu ||w||^2 / 2` in place of `||w|| <= lam`, as `Composite`.

    `min -rho + (1/N) sum c_i l_i(rho - margin_i) + mu ||w||^2 / 2` over w, b and rho.

    A further feature `-y_i` has the weight `rho - o`, o the offset of the losses, and -rho is a linear term.
    The samples are divided by a power of 2, and are in coordinates of their span if there are fewer samples
    than features.

    Attributes
    ----------
    form : the composite problem with mu = 0 over (w, rho - o)
    distance : the distance of the weighted class means, `mu ||w||` for a large mu

    Raises
    ------
    CompositionError, EmptySetError
        As `losses_of`.
    ParameterError
        More than 2,000 features and samples.
    """

    def __init__(self, hulls: list[Hull], data: Data) -> None:
        self.classes = losses_of(hulls, data)
        if min(data.n, data.m) > _MOST:
            raise ParameterError(
                f"lam: expected at most {_MOST:,} features or as many samples, got {data.n:,} and "
                f"{data.m:,}; give the radius"
            )
        power = max(math.frexp(data.scale)[1], -1000)
        self.unit = math.ldexp(1.0, power)
        X: Matrix = data.X * math.ldexp(1.0, -power)
        self.span: Span | None = None
        if data.n > data.m:
            self.span = GramCoordinates([X]) if sparse.issparse(X) else OrthonormalCoordinates(X)
            X = self.span.tables[0]
        weights: dict[ConvexLoss, Vec] = {}
        uniform = np.zeros(data.m)
        for one in self.classes:
            weights.setdefault(one.loss, np.zeros(data.m))[one.rows] = one.c / one.h.dim
            uniform[one.rows] = 0.5 * one.c / one.c.sum()
        self.X, self.n = X, X.shape[1]
        self.distance, n = float(np.linalg.norm(X.T @ (data.y * uniform))), self.n
        column = -data.y[:, None]
        table: Matrix = sparse.hstack([X, column], "csr") if sparse.issparse(X) else np.hstack([X, column])
        slope = LinearTerm(np.zeros(data.m), np.eye(1, n + 1, n).ravel())
        self.form = Composite(table, data.y, tuple(weights), (), tuple(weights.values()), tilt=slope)
        self.ridge = Quadratic(np.diag(np.append(np.ones(n), 0.0)))

    def normal(self, v: Vec) -> Vec:
        """Return the normal w in the features from the variable (w, rho - o) of the form."""
        w = v[: self.n] if self.span is None else self.span.outward(v[: self.n])
        return w / self.unit

    def start(self, w: Vec) -> Answer:
        """Return a warm start (w, rho - o), b for a normal w in the features, with optimal b and rho."""
        v = w * self.unit if self.span is None else self.span.inward(w * self.unit)
        thresholds = best_thresholds(self.classes, self.X @ v)[1]
        rho = 0.5 * (thresholds[1.0] + thresholds[-1.0]) - self.classes[0].loss.offset
        return Answer(w=np.append(v, rho), b=0.5 * (thresholds[-1.0] - thresholds[1.0]))

    def solution(self, lam: float) -> tuple[Vec, bool]:
        """Return the optimal w under `||w|| <= lam` in coordinates of the form; True if the bound is active.

        If active, mu is the root of `lam / ||w|| - 1`, which is nearly linear in mu.
        """
        smooth = all(loss.smooth() for loss in self.form.losses)
        solver: Solver[Composite] = ProxNewton() if smooth else ProxALM()
        session, answer = solver.session(self._with_ridge(1.0)), None

        @functools.cache
        def at(mu: float) -> tuple[Vec, float]:
            nonlocal answer
            answer = session.solve(self._with_ridge(mu), Monitor(_ACCURACY), answer)
            v = answer.plane[0][: self.n]
            return v, float(np.linalg.norm(v))

        mu: Any = self.distance / min(lam, 1.0)
        upper = mu
        if mu == 0.0:
            return np.zeros(self.n), False
        while at(mu)[1] < lam and mu * at(mu)[1] > _INACTIVE * self.distance:
            upper, mu = mu, _FALL * mu
        if at(mu)[1] < lam:
            return at(mu)[0], False
        if upper > mu:
            options: Any = {"xtol": 1e-300, "rtol": np.float64(_ACCURACY), "disp": False}
            mu = brentq(lambda mu: lam / at(mu)[1] - 1.0, mu, upper, **options)
        v, size = at(mu)
        return v * (lam / size), True

    def _with_ridge(self, mu: float) -> Composite:
        return replace(self.form, penalties=(ScaledPenalty(0.5 * mu, self.ridge),))


def radius_from_lambda(model: RobustMargin, data: Data) -> KnownRadius:
    """Return the model with radii in place of lam, from the optimum of its problem; cached in the data.

    Raises
    ------
    CompositionError
        The hulls are not those of (22), or have two lams, or a loss of one class is no p-hinge with p > 1.
    EmptySetError
        The slopes of the loss are too small for any radius.
    ParameterError
        lam is not positive; more than 2,000 features and samples.
    SolverError
        The optimum was not found.
    """
    return data.once(("radii", model), lambda: _solved(model, data))


def _solved(model: RobustMargin, data: Data) -> KnownRadius:
    hulls = hulls_by_lam(model)
    lam = lam_of(hulls)
    if all(ball_of(hull).loss.slope() is not None for hull in hulls):
        losses_of(hulls, data)  # refuses hulls that are empty
        radii, active, w = [0.0] * len(hulls), True, None  # l* is 0 wherever it is finite
    else:
        problem = NormProblem(hulls, data)
        bound = min(max(lam * problem.unit, 1e-100), 1e100)
        v, active = problem.solution(bound)
        q = best_thresholds(problem.classes, problem.X @ v)[0]
        x = problem.X.T @ (data.y * q)
        distance = float(np.linalg.norm(x))
        gap = distance - float(v @ x) / bound
        if active and not gap <= _GAP * distance < math.inf:
            raise SolverError(
                f"lam: the radius of lam = {lam:g} was not found, its relative gap is "
                f"{gap / distance:.2g}; scale the features, or give the radius"
            )
        w, radii = problem.normal(v), []
        for hull in hulls:
            rows = hull.samples.rows(data)
            class_weights = len(hulls) * (q if rows is None else q[rows])
            radii.append(ball_of(hull).curve(hull.samples.bound(data)).value(class_weights))
    names = model.params()
    each = [_with_radius(hull, r, names) for hull, r in zip(hulls, radii, strict=True)]
    U = each[0] if len(each) == 1 else each[0] - each[1]
    return KnownRadius(replace(model, set=U), active, w)


def norm_without_bound(hulls: list[Hull], data: Data) -> tuple[float, bool]:
    """Return `||w||` of the solution without the bound `||w|| <= lam`; True if w separates the classes.

    The norm is inf if w separates the classes, or if the norm exceeds 1e12 in units of the samples.
    """
    problem = NormProblem(hulls, data)
    v, endless = problem.solution(_LONG)
    scores = data.y * (problem.X @ v)
    least = sum(float(scores[data.y == sign].min()) for sign in (1.0, -1.0))
    separates = least > 1e-12 * float(np.abs(scores).max())
    size = math.inf if endless or separates else float(np.linalg.norm(v)) / problem.unit
    return size, separates


def _with_radius(hull: Hull, radius: float, names: Collection[str]) -> Hull:
    """Return the hull with a radius in place of lam, as a `Param` whose name is not in `names`."""
    word = "radius" if hull.samples == signed else f"radius_{hull.samples.tag}"
    while word in names:
        word += "_of_lam"
    return replace(hull, weights=LossBall(ball_of(hull).loss, Param(word, radius)))
