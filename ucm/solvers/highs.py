"""Linear programs in HiGHS: nearest points in the norms 1 and inf; hinge or ramp loss, l1 and l inf norms.

The programs of losses are solved by row and column generation.

`min sum_i c_i max(0, o - t_i) + a ||w||_1 - <u, w> - u_b b` is solved in its dual,

    max o sum_i alpha_i  s.t.  0 <= alpha_i <= c_i,  y'alpha = -u_b,  |(Z'alpha + u)_j| <= a,

Z the samples times their labels: one row per feature where the primal has one per sample, so a basis of order
n + 1, and every sample a column between two bounds. w and b are minus the duals of the rows; without
intercept the row of b is free. The tilts of a
DCA are in u: from one problem to the next only the bounds of rows move, the basis stays dual feasible and the
dual simplex method goes on from it. Equations (24), (28) and (31) of Ong and Le Thi (2013) are the primal
programs. With `s ||w||_inf` as well, whose conjugate is 0 where `||g||_1 <= s`, the rows become

    |(Z'alpha + u + p - q)_j| <= a,    p, q >= 0,    sum_j p_j + q_j <= s.

The problem over all samples and features, with the tilt v, is solved by restricted problems over some of
them. A feature outside has weight 0; a sample outside keeps the side of its breakpoint, `alpha_i` = 0 or
c_i, and counts as a linear function. The answer is that of the whole problem exactly when

    |(Z'(alpha + v) + u)_j| <= a   for the features outside,   Z the samples times their labels,
    t_i >= o where alpha_i = 0 and t_i <= o where alpha_i = c_i   for the samples outside;

both are tested over all of them, and what fails is taken in, until nothing does. The samples to begin with
are near the breakpoint at a centre: a rough point from another solver, or the end of the last problem. Of the
samples on the wrong side those enter first that change sides first on the way from the centre to the answer.
A program over too few samples can be unbounded: then the way is a ray along which it falls for ever.

Nearest points are `min sum_j (u_j + v_j)` (q = 1) or `min t, u_j + v_j <= t` (q = inf) over
`c + sum A_k q_k = u - v`, `u, v >= 0` and the polyhedra of the q_k; minus the duals of the equations are a w
with `||w||_p = 1`: the linear programs of appendix D of Barbero, Takeda and Lopez (2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Matrix, Vec, column_sizes
from ucm.data.options import COUNT, option, optional
from ucm.errors import ParameterError, SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer, Session, Solver, Status, solver_of
from ucm.language.contracts import Block, Polyhedron
from ucm.numerics.conic_programs import units
from ucm.solvers.linear_program import LinearProgram

Index = NDArray[np.intp]

_SLACK = 1e-9  # relative tolerance of the tests on features and samples outside
_NEAR = 3  # samples near the breakpoint for each feature
_LARGEST = 1000  # largest number of features with an l infinity norm
_OF_THE_PRIMAL: dict[str, Status] = {"infeasible": "unbounded", "unbounded": "infeasible"}


@dataclass(frozen=True)
class HiGHS(Solver[MinNorm | Composite]):
    """Solve nearest points in the norms 1 and inf, or one piecewise linear loss, as linear programs.

    The dual simplex method goes on from problem to problem in a session of losses.

    Parameters
    ----------
    samples, features
        Samples or features enter the program as needed where there are more than this many; None: all at
        once.
    rough
        A solver whose answer names the samples and features to begin with, where samples enter as needed;
        None: all samples at once.
    """

    samples: int | None = option(optional(COUNT), 20_000)
    features: int | None = option(optional(COUNT), 150)
    rough: Solver[Composite] | None = option(optional(solver_of(Composite)), None)
    name: ClassVar[str] = "highs"

    def refuse(self, form: MinNorm | Composite) -> str | None:
        if isinstance(form, MinNorm):
            if form.norm not in (1.0, math.inf):
                return "it takes the norms 1 and inf of x (inf and 1 of w)"
            domains = (b.domain for b in form.blocks if polyhedron(b) is None)
            return next((f"{domain!r} is no polyhedron" for domain in domains), None)
        a, c, s, domains = form.norms
        if s > 0.0 and form.n > _LARGEST:
            return f"with l infinity it takes at most {_LARGEST} features, got {form.n}"
        if len(form.losses) != 1 or form.losses[0].slope() is None:
            return "it takes one piecewise linear loss (Hinge, Ramp)"
        if c > 0.0 or domains or a + s == 0.0:
            return "it takes the norms of l1 and l infinity as the only convex penalty"
        return None

    def session(self, form: MinNorm | Composite) -> Solver:
        return self if isinstance(form, MinNorm) else self._generation(form)

    def _generation(self, form: Composite) -> _Generation:
        rough, many = None, self.samples is not None and form.m > self.samples
        if many and self.rough is not None and self.rough.refuse(form) is None:
            rough = self.rough.session(form)
        return _Generation(self, form, None if form.norms[2] > 0.0 else self.features, rough)

    def solve(self, form: MinNorm | Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        if isinstance(form, MinNorm):
            return nearest_point(form, monitor)
        return self._generation(form).solve(form, monitor, start)


class _Generation(Session[Composite]):
    """Session of row and column generation: a restricted linear program over some samples and features.

    features : they enter as needed where there are more than this many; None: all at once
    rough : a solver of the point to begin near, from which on samples enter as needed; None: all at once
    centre, away : (w, b) near which the samples enter, and its margins minus the breakpoint
    """

    def __init__(
        self, solver: Solver, form: Composite, features: int | None, rough: Solver[Composite] | None = None
    ) -> None:
        super().__init__(solver)
        self.rough, self.all_features = rough, features is None or form.n <= features
        self._take_losses(form)

    def _take_losses(self, form: Composite) -> None:
        """Reset the session to the losses of a form, with an empty restricted program."""
        self.form, self.caps, self.program = form, form.caps, _DualProgram(form)
        self.alpha = np.zeros(form.m)
        self.inside = np.zeros(form.m, dtype=bool)
        self.chosen = np.zeros(form.n, dtype=bool)
        self.centre, self.away = (np.zeros(form.n), 0.0), np.zeros(form.m)

    def _take(self, samples: Index, features: Index) -> None:
        samples, features = samples[~self.inside[samples]], features[~self.chosen[features]]
        if samples.size or features.size:
            self.program.take(samples, features)
            self.inside[samples] = self.chosen[features] = True

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        if not form.same_terms(self.form):
            self._take_losses(form)
        self.monitor = self.program.program.monitor = monitor
        if start is not None:
            self._take(np.zeros(0, dtype=np.intp), np.flatnonzero(start.plane[0]))
            if 0 < self.program.samples.size < form.m:
                self._near(start)
        if self.program.samples.size == 0:
            done = self._begin(form)
            if done is not None:
                return done
        while True:
            answer = self._solve(form)
            if answer.status in ("interrupted", "max_iter"):
                break
            wrong = self._wrong_sides(answer)
            if wrong.size == 0:
                break
            self._take(wrong, wrong[:0])
        answer = self._answer(answer)
        value, gap = form.duality_gap(answer)
        relative = gap / max(abs(value), 1e-300)
        monitor.report(max(1, monitor.iterations), value, relative)
        if answer.status == "converged" and not relative <= monitor.tol:
            left = f"the linear program is solved, and rounding leaves a relative gap of {relative:.2g}"
            return answer.ended("stalled", f"{left}; scale the features")
        return answer

    def _begin(self, form: Composite) -> Answer | None:
        """Fill the restricted program and return None, or the answer of `rough` if it is final."""
        everything = np.arange(form.m)
        if self.rough is not None:
            sub_monitor = self.monitor.child(self.monitor.tol)
            point = self.rough.solve(form, sub_monitor)
            self.monitor.count_work(sub_monitor)
            if point.status in ("converged", "interrupted"):
                return point
            used = point.plane[0] != 0.0 if not self.all_features else np.ones(form.n, dtype=bool)
            self._take(everything[:0], np.flatnonzero(used))
            self._near(point)
            return None
        if self.all_features:
            self._take(everything[:0], np.arange(form.n))
        else:
            z = form.adjoint(self._balanced(form) * self.caps) + form.linear.normal
            self._take(everything[:0], _largest(z, 20))  # features of the first program
        self._take(everything, everything[:0])
        return None

    def _near(self, point: Answer) -> None:
        """Make a point the centre: the samples with margins near the breakpoint enter, and many others leave.

        `alpha` of each sample outside is fixed by the side of the breakpoint that it is on.
        """
        offset = self.form.losses[0].offset
        self.centre, self.away = point.plane, self.form.margins(*point.plane) - offset
        far = np.abs(self.away)
        count = max(int(np.count_nonzero(far <= 0.03 * offset)), _NEAR * (self.program.features.size + 1))
        nearest = np.argpartition(far, count)[:count] if count < self.form.m else np.arange(self.form.m)
        if self.program.samples.size > 2 * count:
            near = np.zeros(self.form.m, dtype=bool)
            near[nearest] = True
            self.program.leave(~near[self.program.samples])
            self.inside &= near
        self.alpha = np.where(self.away < 0.0, self.caps, 0.0)
        self._take(nearest, self.program.features[:0])

    def _solve(self, form: Composite) -> Answer:
        """Solve over the samples inside, adding features until no feature violates its dual constraint."""
        a, s, tilt = form.norms[0], form.norms[2], form.linear
        outside = np.where(self.inside, 0.0, self.alpha) + tilt.margin
        linear = form.adjoint(outside) + tilt.normal if outside.any() else tilt.normal
        bias = float(form.y @ outside)
        while True:
            before = self.program.passes
            answer = self.program.solve(a, s, linear[self.program.features], bias)
            fraction = self.program.features.size * self.program.samples.size / max(1, form.m * form.n)
            self.monitor.passes += fraction * (self.program.passes - before) + 0.5
            if answer.status != "converged" or answer.slopes is None:
                return answer
            self.alpha[self.program.samples] = answer.slopes
            if self.all_features:
                return answer
            if self.monitor.timed_out:
                return answer.interrupted()
            z = form.adjoint(np.where(self.inside, self.alpha, 0.0)) + linear
            self.monitor.passes += 0.5
            short = np.flatnonzero((np.abs(z) > a * (1.0 + _SLACK)) & ~self.chosen)
            if short.size == 0:
                return answer
            most = max(10, self.program.features.size // 3)
            # many features are inside: all others are cheaper at once
            if (
                self.program.samples.size == form.m
                and form.n <= 2000
                and self.program.features.size + most > 0.15 * form.n
            ):
                short, most = np.arange(form.n), form.n
            self._take(short[:0], short[_largest(z[short], most)])

    def _plane(self, answer: Answer) -> tuple[Vec, float]:
        """Return the normal padded to all features, and the bias."""
        w, b = np.zeros(self.form.n), answer.plane[1]
        w[self.program.features] = answer.w
        return w, b

    def _wrong_sides(self, answer: Answer) -> Index:
        """Return samples outside that leave their side first on the way from the centre to an answer."""
        outside = np.flatnonzero(~self.inside)
        if outside.size == 0:
            return outside
        self.monitor.passes += 0.5
        w, b = self._plane(answer)
        ray = answer.status != "converged"
        if not ray:
            w, b = w - self.centre[0], b - self.centre[1]
        side = np.where(self.alpha[outside] > 0.0, -1.0, 1.0)
        distance, pace = side * self.away[outside], -side * self.form.margins(w, b)[outside]
        wrong = pace > (0.0 if ray else distance + _SLACK)
        if ray and not wrong.any():  # none bounds the program, or HiGHS has no ray
            wrong, pace = np.ones(outside.size, dtype=bool), np.ones(outside.size)
        most = max(self.program.samples.size // 2, self.program.features.size + 1)
        outside, when = outside[wrong], distance[wrong] / pace[wrong]
        return outside if outside.size <= most else outside[np.argpartition(when, most)[:most]]

    def _balanced(self, form: Composite) -> Vec:
        """Return weights relative to the caps at which both class totals equal the smaller class total."""
        up, down = float(self.caps[form.y > 0].sum()), float(self.caps[form.y < 0].sum())
        return np.where(form.y > 0, min(1.0, down / up), min(1.0, up / down))

    def _answer(self, found: Answer) -> Answer:
        w, b = self._plane(found)
        w = self.form.without_rounding(w)
        return replace(found, w=w, b=b, slopes=None if found.slopes is None else self.alpha.copy())


def _largest(z: Vec, count: int) -> Index:
    """Return the indices of the `count` entries largest in absolute value."""
    if z.size <= count:
        return np.arange(z.size)
    return np.argpartition(-np.abs(z), count)[:count]


class _DualProgram:
    """Dual linear program in HiGHS over the samples and features inside.

    Row 0 is `y'alpha`, with l infinity row 1 is `sum p + q`, then one row for every feature inside.

    at : the columns of the samples inside
    passes : over these samples and features, so far
    unit : the scale of each feature, a power of 2: HiGHS takes no entries below 1e-9 or above 1e15
    samples, features : those inside, as they came
    """

    def __init__(self, form: Composite) -> None:
        self.y, self.caps, self.passes = form.y, form.caps, 0.0
        self.offset, self.largest = form.losses[0].offset, form.norms[2] > 0.0
        self.free = np.inf if not form.intercept else 0.0  # how far y'alpha may be from its value
        self.dense = isinstance(form.X, np.ndarray)
        self.X = form.X if self.dense else form.X.tocsc()
        self.unit = np.ldexp(1.0, np.frexp(column_sizes(form.X))[1])
        self.samples, self.at = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        self.features = np.zeros(0, dtype=np.intp)
        self.program = LinearProgram(presolve="off")
        self.program.rows([], 0.0, np.zeros(1 + self.largest))

    def take(self, samples: Index, features: Index) -> None:
        """Add samples as columns and features as rows of the program."""
        first = 1 + self.largest
        self.samples = np.concatenate([self.samples, samples])
        if samples.size:  # entries in the existing rows
            above = np.zeros((samples.size, first))
            above[:, 0] = self.y[samples]
            parts = [above, self._signed(samples, self.features)]
            part = np.hstack(parts) if self.dense else sparse.hstack(parts)
            at = self.program.columns(samples.size, 0.0, self.caps[samples], -self.offset, part)
            self.at = np.concatenate([self.at, at])
        if features.size:
            terms, free = [(self.at, self._signed(self.samples, features).T)], np.inf
            if self.largest:
                into = np.zeros((features.size, first + self.features.size))
                into[:, 1] = self.unit[features] / self.unit.max()
                for sign in (1.0, -1.0):
                    shift = self.program.columns(features.size, 0.0, free, 0.0, into)
                    terms.append((shift, sign * sparse.eye_array(features.size)))
            self.features = np.concatenate([self.features, features])
            self.program.rows(terms, -free, np.full(features.size, free))

    def leave(self, gone: NDArray[np.bool_]) -> None:
        """Delete the columns of some of the samples inside."""
        columns = np.sort(self.at[gone])
        self.program.drop(columns)
        self.samples, self.at = self.samples[~gone], self.at[~gone]
        self.at -= np.searchsorted(columns, self.at)

    def _signed(self, samples: Index, features: Index) -> Matrix:
        """Return the submatrix of samples and scaled features, with rows multiplied by the labels."""
        if self.dense:
            return self.X[np.ix_(samples, features)] / self.unit[features] * self.y[samples, None]
        part = self.X[:, features][samples].multiply(self.y[samples, None])
        return part.multiply(1.0 / self.unit[features])

    def solve(self, a: float, s: float, linear: Vec, bias: float) -> Answer:
        """Solve over the samples and features inside: return w, b and the slopes of the losses there.

        The problem is `min sum c_i max(0, o - t_i) + a ||w||_1 + s ||w||_inf - <linear, w> - bias b`.
        """
        unit, top = self.unit[self.features], self.unit.max()
        below, above = [-bias - self.free], [-bias + self.free]
        if self.largest:
            below, above = [*below, -np.inf], [*above, s / top]
        self.program.sides(np.append(below, (-a - linear) / unit), np.append(above, (a - linear) / unit))
        vertex = self.program.solve()
        dual = self.program.dual_ray() if vertex.status == "infeasible" else vertex.dual
        dual = -dual if dual.size else np.zeros(len(below) + linear.size)
        w, b = dual[len(below) :] / unit, float(dual[0])
        answer = Answer(w=w, b=b, slopes=vertex.x[self.at] if vertex.x.size else None)
        self.passes += 0.5 * max(1, vertex.pivots)
        if vertex.status == "optimal":
            return answer
        if vertex.status == "time_limit":
            return answer.interrupted()
        if vertex.status == "max_iter":
            return answer.ended("max_iter", f"{vertex.pivots} pivots; raise max_iter")
        status = _OF_THE_PRIMAL.get(vertex.status, "stalled")
        words = f"HiGHS ended with the status {vertex.words!r}; scale the features"
        return answer.ended(status, words)


def nearest_point(form: MinNorm, monitor: Monitor) -> Answer:
    """Return the point of a polyhedral set nearest to 0 in the norm 1 or inf, by a linear program."""
    if monitor.timed_out:
        return Answer(form.centers()).interrupted()
    program = LinearProgram(monitor)
    columns = [_columns(program, b) for b in form.blocks]
    scale, meets = units(form)
    equations = _image(program, form, columns, scale)
    couplings = []
    for c, unit in zip(form.couplings, meets, strict=True):
        parts = [(columns[k], B.matrix() / unit) for k, B in c.terms]
        couplings.append(program.rows(parts, -c.offset / unit, -c.offset / unit))
    vertex = program.solve()
    if vertex.status == "infeasible":
        return Answer(form.centers(), status="infeasible", message="HiGHS found no point")
    if vertex.status == "time_limit":
        return Answer(form.centers()).interrupted()
    if vertex.status == "max_iter":
        return Answer(form.centers()).ended("max_iter", f"{vertex.pivots} pivots; raise max_iter")
    if vertex.status != "optimal":
        raise SolverError(
            f"highs: the linear program ended with {vertex.words!r}; scale the features, or take "
            'solver="clarabel"'
        )
    q = form.begin(Answer([vertex.x[k] for k in columns]))
    answer, w = Answer(q), -vertex.dual[equations]
    length = form.space.norm(w, math.inf if form.norm == 1.0 else 1.0)
    if length > 0.0:
        answer.w = w / length
        answer.multipliers = [
            -vertex.dual[rows] * (scale / (unit * length))
            for unit, rows in zip(meets, couplings, strict=True)
        ]
    height = -form.space.norm(form.matvec(q), form.norm)
    monitor.report(monitor.iterations, height, float("nan"))
    return answer


def _image(program: LinearProgram, form: MinNorm, columns: list[Index], scale: float) -> Index:
    """Add `u - v = x(q)` in units of `scale`, with the norm of u - v as cost; return the equation indices."""
    n, eye = form.n, sparse.eye_array(form.n)
    cost = float(form.norm == 1.0)
    up = program.columns(n, 0.0, math.inf, cost)
    down = program.columns(n, 0.0, math.inf, cost)
    terms = [(k, b.map.matrix() / scale) for k, b in zip(columns, form.blocks, strict=True)]
    center = -form.center / scale
    equations = program.rows([*terms, (up, -eye), (down, eye)], center, center)
    if form.norm != 1.0:
        top = program.columns(1, 0.0, math.inf, 1.0)
        program.rows([(up, eye), (down, eye), (top, -np.ones((n, 1)))], -np.inf, np.zeros(n))
    return equations


def _columns(program: LinearProgram, block: Block) -> Index:
    """Add the variables and constraints of the domain of a block; return the indices of its parameters."""
    domain = polyhedron(block)
    if domain is None:
        raise ParameterError(f"HiGHS: {block.domain!r} is no polyhedron")
    at = program.columns(domain.lower.size, domain.lower, domain.upper)
    if domain.most.size:
        program.rows([(at, domain.A)], domain.least, domain.most)
    return at[: block.map.shape[1]]


def polyhedron(block: Block) -> Polyhedron | None:
    """Return the domain of a block as a polyhedron; None if the domain is not polyhedral."""
    return block.domain.polyhedron(block.map.shape[1])
