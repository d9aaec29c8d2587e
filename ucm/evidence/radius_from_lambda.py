"""The radius of a ball of a loss that stands for the lam of a generalised nu-SVM.

Ito, Takeda and Toh (2015), (22) and (25): with `h(q) = (1/m) sum l*(m q_i)` over weights q of mass 1/2 for
each class, and Z of columns `y_i x_i`,

    min over ||w|| <= lam, b, rho of -rho + (1/m) sum l(rho - margin_i) = -min over q of h(q) + lam ||Z q||.

By their Lemma 5 an optimal q is the nearest point of the hull whose weights have `h <= h(q)`. With a
multiplier mu the bound `||w|| <= lam` is the ridge `mu ||w||^2 / 2`, and `mu w = Z q`: mu is a scalar root.
Where mu is 0, 0 lies on the boundary of that hull and the bound is inactive: w is not 0, as they say for
every lam beyond some lam_max, but the same for all of these, and the problem is solved as it stands.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import ParameterError, SolverError
from ucm.evidence.generalised_nu_svm import (
    ball_of,
    best_levels,
    hulls_by_lam,
    lam_of,
    losses_of,
)
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.forms.solver import Solver
from ucm.language.domains import LossBall
from ucm.language.objective import ScaledPenalty
from ucm.language.parameter import Param
from ucm.language.penalties.quadratic import Quadratic
from ucm.language.robust import RobustMargin
from ucm.language.sets import Hull
from ucm.language.statistics.samples import signed
from ucm.language.terms import ConvexLoss
from ucm.solvers import ProxALM, ProxNewton
from ucm.solvers.coordinates import GramCoordinates, OrthonormalCoordinates, Span

_GAP = 1e-6  # relative, of the distance
_ACCURACY = 1e-12  # relative, of the problem with a ridge
_MOST = 2000  # order of its linear systems
_INACTIVE = 1e-12  # times the distance of the class means: a distance that counts as 0
_FALL = 1e-3  # factor of mu until its root is enclosed
_LONG = 1e12  # in units of the samples: a bound of the norm that stands for none


@dataclass(frozen=True)
class KnownRadius:
    """A model by lam, at the optimum of its problem.

    Attributes
    ----------
    model : with radii, `Param`s of this name, in place of every lam
    active : True if `||w|| = lam`; else 0 lies on the boundary of the set with these radii
    w : (n,) the normal; None if the radius does not depend on it
    """

    model: RobustMargin
    active: bool
    w: Vec | None


class NormProblem:
    """The generalised nu-SVM with a squared norm in place of the bound of w, as `Composite`.

    `min -rho + (1/N) sum c_i l_i(rho - margin_i) + mu ||w||^2 / 2` over w, b and rho.

    The coefficient of one more feature, `-y_i`, is `rho - o` for losses of the offset o, and the slope -1 is
    a linear term. The samples are divided by a power of 2, and in coordinates of their span if they are fewer
    than the features.

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
        X: Any = data.X * math.ldexp(1.0, -power)
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
        whole: Any = sparse.hstack([X, column], "csr") if sparse.issparse(X) else np.hstack([X, column])
        slope = LinearTerm(np.zeros(data.m), np.eye(1, n + 1, n).ravel())
        self.form = Composite(whole, data.y, tuple(weights), (), tuple(weights.values()), tilt=slope)
        self.ridge = Quadratic(np.diag(np.append(np.ones(n), 0.0)))

    def normal(self, v: Vec) -> Vec:
        """Return the normal in the features for a solution over (w, rho - o)."""
        w = v[: self.n] if self.span is None else self.span.outward(v[: self.n])
        return w / self.unit

    def start(self, w: Vec) -> Answer:
        """Return the solution over (w, rho - o) for a normal in the features, with the best b and rho."""
        v = w * self.unit if self.span is None else self.span.inward(w * self.unit)
        levels = best_levels(self.classes, self.X @ v)[1]
        rho = 0.5 * (levels[1.0] + levels[-1.0]) - self.classes[0].loss.offset
        return Answer(w=np.append(v, rho), b=0.5 * (levels[-1.0] - levels[1.0]))

    def solution(self, lam: float) -> tuple[Vec, bool]:
        """Return the solution w with `||w|| <= lam`, in the unit and coordinates of the form, and True if the
        bound is active. Its mu is then the root of `lam / ||w|| - 1`, which is nearly linear in mu."""
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
    """Return the optimum of a model by lam, computed once for the data.

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
        q = best_levels(problem.classes, problem.X @ v)[0]
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
            own = len(hulls) * (q if rows is None else q[rows])
            radii.append(ball_of(hull).curve(hull.samples.bound(data)).value(own))
    taken = model.params()
    each = [_with_radius(hull, r, taken) for hull, r in zip(hulls, radii, strict=True)]
    U = each[0] if len(each) == 1 else each[0] - each[1]
    return KnownRadius(replace(model, set=U), active, w)


def norm_without_bound(hulls: list[Hull], data: Data) -> tuple[float, bool]:
    """Return the norm of the solution w without the bound `||w|| <= lam`, inf if it is larger than 1e12 in
    units of the samples; and True if a w was found that separates the classes."""
    problem = NormProblem(hulls, data)
    v, endless = problem.solution(_LONG)
    scores = data.y * (problem.X @ v)
    least = sum(float(scores[data.y == sign].min()) for sign in (1.0, -1.0))
    separates = least > 1e-12 * float(np.abs(scores).max())
    size = math.inf if endless or separates else float(np.linalg.norm(v)) / problem.unit
    return size, separates


def _with_radius(hull: Hull, radius: float, taken: Collection[str]) -> Hull:
    """Return the hull with a radius, a `Param` with another name than the parameters in `taken`."""
    word = "radius" if hull.samples == signed else f"radius_{hull.samples.tag}"
    while word in taken:
        word += "_of_lam"
    return replace(hull, weights=LossBall(ball_of(hull).loss, Param(word, radius)))
