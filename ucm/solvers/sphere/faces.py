"""Global minimum over the unit sphere for p = inf or p = 1, by one convex program per face.

Cutting planes serve any set whose support is at hand. Every point x of U is a lower bound `f(w) >= -w'x`.
Over the face of a vertex g of the ball of the dual norm the best of these bounds is a linear program in w,

    min {t : t >= -w'x_k for all k, <g, w> = 1, |v_i| <= R_i},

v the coordinates of w and R the box around the unit ball; its multipliers weigh the points that prove it. f
at its solution gives the next point. Points belong to no face, so that the points of one face bound f on the
others, and a face ends as soon as its bound reaches the least f that is known anywhere. A face of a small
set that a few cuts leave open is minimised by a conic program, whose point of U and w are the next cuts: for
round sets, such as ellipsoids, these save most of the others, and its accuracy does not matter.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, option
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof
from ucm.solvers.linear_program import LinearProgram
from ucm.solvers.sphere.ray_shooting import RayPoint, Reach, radial

_CONIC = 5  # cuts of a face after which a conic program is asked
_SMALL = 10_000  # numbers in such a program


@dataclass(frozen=True)
class Faces(Solver[UnitNorm]):
    """Minimise f globally by a convex program per face: 2 n for `||w||_inf = 1`, 2^n for `||w||_1 = 1`.

    `||w||_p = max <g, w>` over the vertices g of the ball of the dual norm, one for each face of the unit
    ball. Minimising f on `<g, w> = 1` for each of them, without the other bounds of the face, gives no less
    than the global minimum, as `w / ||w||_p` has no larger f; the least of them is the minimum. The dual
    programs `max {s : -s g in U}` find how far U reaches along every vertex: the largest ball in U. Over sums
    of reduced hulls they are linear, over intersections conic; over any other set cutting planes, with one
    conic program a face at most, bound each face from below until no face can hold a better w.

    Parameters
    ----------
    most
        Largest number of features for p = 1.
    """

    most: int = option(COUNT, 12)
    name: ClassVar[str] = "faces"

    def refuse(self, form: UnitNorm) -> str | None:
        if form.norm not in (1.0, np.inf):
            return "it takes p = 1 and p = inf"
        if not form.bounded:
            return "U has no bound"
        if form.norm == 1.0 and form.image.n > self.most:
            return f"p = 1 has 2^n faces: it takes up to {self.most} features, got {form.image.n}"
        return None

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        v = form.begin(start)
        answer = Answer(form.image.centers(), form.lift(v))
        if form.hulls is None and not form.image.couplings:
            cuts = Cuts(form, monitor, v)
            found = self._search(form, monitor, cuts.reach, answer)
            monitor.passes += cuts.passes
            return found
        return self._search(form, monitor, radial(form, monitor), answer)

    def _search(self, form: UnitNorm, monitor: Monitor, reach: Reach, answer: Answer) -> Answer:
        """Search all faces by `reach`; return the answer of the least f, with its proof."""
        points: list[list[Vec]] = []
        best = np.inf
        for g in form.vertices():
            if not monitor.may_continue:
                return answer.ended("max_iter", f"{monitor.iterations} faces searched; raise max_iter")
            point = reach(g)
            monitor.passes += 1.0
            if point is None and monitor.timed_out:
                return answer.interrupted()
            if point is None:
                return answer.ended("max_iter", "the program of a face had no answer; scale the features")
            points.append(point.q)
            # a face may end with a bound before its own minimum is known
            height = point.s if form.image.couplings else form.height(form.unit(point.v))
            if height < best:
                best, answer = height, point.answer(form)
            if monitor.report(monitor.iterations + 1, best, float("nan")):
                return answer.interrupted()
        answer.witness = LowerBoundProof("vertices", points)
        return answer


class Cuts:
    """Cutting-plane lower bounds of f on the faces of the unit ball, with the best unit vector v so far."""

    def __init__(self, form: UnitNorm, monitor: Monitor, start: Vec) -> None:
        self.form, self.monitor, self.share = form, monitor, 0.1 * monitor.tol
        self.box = form.box()
        self.last: _Program | None = None
        self.points: list[Vec] = []
        self.blocks: list[list[Vec]] = []
        self.v, self.best, self.passes = start, np.inf, 0
        for v in (start, *np.eye(form.rank), *-np.eye(form.rank)):
            self._support(v)
        size = np.abs(np.array(self.points)).max(axis=0, initial=0.0)
        # coordinates in units of their own: entries of size one, for every scale of the features
        self.unit = np.where(size > 0.0, size, 1.0)
        self.flat = 1e-10 * float(np.linalg.norm(size))  # rounding of bounds

    @functools.cached_property
    def conic(self) -> Reach | None:
        """The radial function of a small set, by conic programs; None for a larger set."""
        numbers = self.form.rank * sum(b.map.shape[1] for b in self.form.image.blocks)
        return radial(self.form, self.monitor) if numbers <= _SMALL else None

    def _add(self, q: list[Vec]) -> None:
        """Record the point of U with blocks q as a cut."""
        self.points.append(self.form.lower(self.form.image.matvec(q)))
        self.blocks.append(q)

    def _support(self, v: Vec) -> float:
        """Return f(v), and record its point of U as a cut."""
        form = self.form
        height, q = form.highest(v)
        self.passes += 1
        self._add(q)
        far = height / form.length(v)
        if far < self.best:
            self.best, self.v = far, form.unit(v)
        return height

    def reach(self, g: Vec) -> RayPoint | None:
        """Return a lower bound of f on the face of g as a `RayPoint`, the best v and the blocks; or None."""
        program = self._program()
        program.face(g)
        best, low = self._begin(g), -np.inf
        height = self._support(best)
        program.cut(self.points[-1][None])
        cut = None
        for step in range(1, 100 * (g.size + 1)):
            if self.monitor.timed_out:
                return None
            solved = program.solve()
            if solved is None:
                break
            low, v, shares = solved
            cut = (low, best, shares)
            if low >= self.best - max(self.share * self.best, self.flat):
                break
            way = 1.0 if step % 10 == 0 else 0.2  # usually a fifth of the way to the program's w
            tried = best + way * (v - best)
            if step == _CONIC and self.conic is not None and (point := self.conic(g)) is not None:
                tried, way = point.v, 0.0  # the bound with these cuts is not known yet
                self._add(point.q)
                program.cut(self.points[-1][None])
            tried /= float(tried @ g)
            above = self._support(tried)
            if above < height:
                best, height = tried, above
                cut = (low, best, shares)
            program.cut(self.points[-1][None])
            known = way == 1.0 and any(np.array_equal(x, self.points[-1]) for x in self.points[:-1])
            if known or (way == 1.0 and above <= low + self.flat):
                break  # the bound of the program is exact at its solution, up to the accuracy of HiGHS
        if cut is None:
            return None
        low, best, shares = cut
        used = np.flatnonzero(shares > 0.0)
        total = float(shares[used].sum())
        q = [
            np.sum([shares[k] / total * self.blocks[k][j] for k in used], axis=0)
            for j in range(len(self.blocks[0]))
        ]
        return RayPoint(low, best, q, [])

    def _program(self) -> _Program:
        """Return the face program, rebuilt from the last points if too large or badly scaled."""
        limit = 5 * (self.box.size + 1)  # points kept from face to face
        scale = max(self.best, self.flat)
        if self.last is None or len(self.points) > 2 * limit or self.last.scale > 100.0 * scale:
            self.points, self.blocks = self.points[-limit:], self.blocks[-limit:]
            self.last = _Program(self.unit, scale, self.box, self.monitor)
            self.last.cut(np.array(self.points))
        return self.last

    def _begin(self, g: Vec) -> Vec:
        """Return the best v so far, scaled to `<g, v> = 1`, if on the face of g; else the multiple of g."""
        length = float(self.v @ g)
        if length > 0.0:
            v = self.v / length
            if (np.abs(v) <= self.box * (1.0 + 1e-9)).all():
                return v
        return g / float(g @ g)


class _Program:
    """Linear program of a face in HiGHS: columns u and t, `v = scale u / unit` in a box, cost `scale t`."""

    def __init__(self, unit: Vec, scale: float, box: Vec, monitor: Monitor) -> None:
        self.program = LinearProgram(monitor.child(monitor.tol), presolve="off", simplex_strategy=1)
        self.unit, self.scale = unit, scale
        ends = box * (unit / scale)
        u = self.program.columns(unit.size, -ends, ends)
        t = self.program.columns(1, -np.inf, np.inf, 1.0)
        self.columns = np.concatenate([u, t])
        self.program.rows([(u, np.ones((1, unit.size)))], 1.0, 1.0)

    def face(self, g: Vec) -> None:
        """Set the face equation to `<g, v> = 1`."""
        row = g * (self.scale / self.unit)
        length = float(np.abs(row).max())
        self.program.row(0, row / length, 1.0 / length)

    def cut(self, points: NDArray[np.float64]) -> None:
        """Add a cut `t + <x_k, v> >= 0` for each row x_k of `points`."""
        rows = np.column_stack([points / self.unit, np.ones(points.shape[0])])
        none = np.zeros(rows.shape[0])
        self.program.rows([(self.columns, rows)], none, none + np.inf)

    def solve(self) -> tuple[float, Vec, Vec] | None:
        """Return the lower bound, v and the multipliers of the cuts; None if HiGHS finds no optimum."""
        solution = self.program.solve()
        if solution.status != "optimal":
            return None
        u, t = solution.x[:-1], float(solution.x[-1])
        return self.scale * t, self.scale * u / self.unit, np.maximum(solution.dual[1:], 0.0)
