"""Active-set semismooth Newton solver for the nearest points of two hulls.

The method is that of `ucm/native/hulls.c`. Zhao, Sun and Toh (2010) give the augmented Lagrangian; Ito,
Takeda and Toh (2015), equation (12), the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ucm.data.linear_map import LinearMap, SampleMap, Vec
from ucm.data.options import COUNT, check_fields
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver, Status
from ucm.native.threads import blas_threads
from ucm.numerics.coordinates import SpanCoordinates
from ucm.solvers.sample_layout import CompiledLoop, SampleTables, largest

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class ActiveSet(Solver[MinNorm]):
    """Solve for the nearest points of two (reduced) hulls: proximal augmented Lagrangian, active samples.

    Parameters
    ----------
    max_order
        Largest order of the linear systems, the smaller one of features and samples.
    """

    max_order: int = 2000
    name: ClassVar[str] = "active-set"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT)

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if form.couplings:
            return "it takes two hulls, and there are intersections"
        hulls = [b.groups for b in form.blocks if _samples(b.map) is not None]
        if len(hulls) != len(form.blocks) or sum(len(groups or ()) for groups in hulls) != 2 or None in hulls:
            return "it takes two hulls of samples, with caps or without"
        samples = sum(b.map.shape[1] for b in form.blocks)
        if form.center.any() and form.n > samples:
            return "a point beside the hulls may lie outside of the span of the samples"
        order = min(form.n, samples)
        if order > self.max_order:
            return f"its linear systems would have order {order}, above {self.max_order}"
        return None

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        hulls = _Sides(form, monitor)
        with blas_threads(0, hulls.entries):  # one thread factors such systems best
            loop = CompiledLoop(hulls)
            if start is None:
                hulls.begin(loop)
            else:
                direction = None if start.w is None else hulls.inward(start.w)
                loop.begin_near(hulls.joined(start.q), direction)
            ended = loop.run(monitor, monitor.tol)
        message = f"the gap stayed at {loop['gap']:.2g}; raise max_iter or tol"
        return Answer(hulls.blocks(loop.weights()), hulls.normal(loop.w)).after(ended, message)


def _samples(A: LinearMap) -> tuple[Any, float] | None:
    """Return the sample matrix of a map and its scalar factor; None for other maps."""
    A, factor = A.without_factor()
    return (A.X, factor) if isinstance(A, SampleMap) else None


class _Sides(SampleTables):
    """Sample tables of two hulls, in coordinates of their span if there are more features than samples."""

    def __init__(self, form: MinNorm, monitor: Monitor) -> None:
        self.form = form
        caps, totals = [], []
        self.places: list[tuple[int, Any]] = []  # the block of each hull, and its rows there
        self.declared: list[float] = []  # signed factor of the samples of each hull
        tables = []
        for k, b in enumerate(form.blocks):
            samples = _samples(b.map)
            X, factor = samples if samples is not None else (np.empty((0, 0)), 0.0)
            for g, sign in zip(b.groups or (), (1.0, -1.0), strict=False):
                caps.append(g.most)
                totals.append(g.mass)
                tables.append(X if b.classes is None else X[g.entries])
                self.places.append((k, g.entries))
                self.declared.append(factor * sign)
        self.joint, unit = len(form.blocks) == 1, 1.0
        self.span: SpanCoordinates | None = None
        if form.n > sum(X.shape[0] for X in tables):
            tables, unit = self._in_span(tables, monitor)
        factors = unit * np.array(self.declared)
        super().__init__(tables, np.array(caps), np.array(totals), factors, form.stored)
        self.center = form.center / self.unit if form.center.any() else None

    def _in_span(self, tables: list, monitor: Monitor) -> tuple[list, float]:
        """Return the sample tables in coordinates of their span, and the unit of length of these."""
        unit = max(largest(X) for X in tables) or 1.0
        if 1e-100 < unit < 1e100:
            unit = 1.0
        else:  # inner products may overflow
            tables = [X / unit for X in tables]
        with blas_threads(sum(X.shape[0] for X in tables)):
            self.span = SpanCoordinates(tables)
        monitor.hessian_passes += 0.5 * self.span.forming / max(1, self.form.stored)
        return self.span.tables, unit

    def normal(self, w: Vec) -> Vec | None:
        """Return w in feature space, scaled to norm 1; None if w is 0 or its norm underflows."""
        w = w if self.span is None else self.span.outward(w)
        norm = float(np.linalg.norm(w))
        return w / norm if norm > _TINY else None

    def inward(self, x: Vec) -> Vec:
        """Convert a vector of feature space to the coordinates and units of the tables."""
        return (x if self.span is None else self.span.inward(x)) / self.unit

    def objective(self, found: float) -> float:
        return -found * self.unit

    def joined(self, q: Sequence[Vec]) -> Vec:
        return np.concatenate([q[k][rows] for k, rows in self.places])

    def blocks(self, parts: list[Vec]) -> list[Vec]:
        """Return the class weights as parameters by block of the form."""
        if len(self.form.blocks) == 2:
            return parts
        joint = np.empty(self.form.blocks[0].map.shape[1])
        for (_, rows), part in zip(self.places, parts, strict=True):
            joint[rows] = part
        return [joint]


class HullChain:
    """Warm-started nearest points of two hulls for a sequence of proportional caps.

    Weights, active samples and sums over the free samples are kept.

    Divided by c, the weights of `c` times the first caps have the first caps and masses `mass / c`, so that
    those at a cap stay where they are. w and the scores begin on the line through two known ones, and the
    active samples reach as far as the scores were off the time before.

    Parameters
    ----------
    form : the problem, which `ActiveSet` does not refuse, at the first caps
    """

    loop: CompiledLoop
    largest: float
    ended: Status

    def __init__(self, form: MinNorm, monitor: Monitor) -> None:
        self.hulls, self.monitor = _Sides(form, monitor), monitor
        self.caps, self.masses = _caps(form), self.hulls.masses
        self.off, self.far, self.c = 0.05, 0.0, 1.0  # off: kinks in units of the spread of the scores
        self.known: list[tuple[float, Vec, Vec]] = []  # c, w and scores

    def first(self) -> Vec:
        """Solve at the first caps; return w, scaled to the norm of the nearest point (0 if that is 0)."""
        hulls = self.hulls
        with blas_threads(0, hulls.entries):
            self.loop = loop = CompiledLoop(hulls)
            hulls.begin(loop)
            self.ended = loop.run(self.monitor, self.monitor.tol)
        loop.caps[:], self.largest = self.caps, loop["largest"]
        return self._found(self._scores())

    def at(self, caps: Sequence[float] | Vec) -> Vec:
        """Solve at caps proportional to the first caps, from the last solution; return w as `first` does.

        The kinks begin as wide as they had to before: narrower where many outer steps were taken, or few
        Newton steps in one, wider where there were many in one.
        """
        loop, hulls, monitor = self.loop, self.hulls, self.monitor
        c = float(caps[0] / self.caps[0])
        w, scores = self._expected(c)
        with blas_threads(0, hulls.entries):
            # the caps sum to the mass with room for rounding
            loop.masses[:] = np.minimum(self.masses / c, loop.caps * loop.sizes / (1.0 + 1e-12))
            loop.thetas *= self.c / c
            if hulls.center is not None:
                loop.x += hulls.center * (1.0 / c - 1.0 / self.c)
            loop.V[0] = loop.V[1]
            loop.w[:], scores, self.c = w / c, scores / c, c
            width = self.off * float(scores.std())
            loop["sigma"], loop["largest"] = loop.caps.max() / width, self.largest / c
            # in widths of the kinks, and in mean errors of predicted scores
            loop["reach"] = max(3.0 * width, self.far)
            before, monitor.iterations = loop["systems"], 0
            self._whole(scores)
            loop.verify = -4.0  # negative: looked at here, and again after moves of 4 reaches
            self.ended = loop.run(monitor, monitor.tol, most=12)
            found = self._scores()
            astray = not self.proven or self._gap(found) > monitor.tol
            if astray and loop["status"] != 2.0 and monitor.may_continue and not monitor.timed_out:
                self._whole(found)
                loop.verify = 1.0
                self.ended = loop.run(monitor, monitor.tol)
                found = self._scores()
            iterations, steps = monitor.iterations, loop["systems"] - before
            # wanted: at most 4 outer steps, each of 1 to 4.5 Newton steps
            if iterations > 4 or steps < iterations:
                self.off = max(self.off * 0.5, 1e-4)
            elif steps > 4.5 * iterations:
                self.off = min(self.off * 1.6, 1.0)
            scores -= found
            self.far = 3.0 * float(np.sqrt(scores @ scores / scores.size))
        return self._found(found)

    def _expected(self, c: float) -> tuple[Vec, Vec]:
        """Predict w and the scores at the multiple c of the caps, from the nearest known solutions.

        Linear extrapolation from two of them; the nearest one itself where c is far from both.
        """
        nearest = sorted(self.known, key=lambda each: abs(each[0] - c))
        c1, w1, a1 = nearest[0]
        for c0, w0, a0 in nearest[1:2]:
            t = (c - c1) / (c1 - c0)
            if abs(t) <= 2.0:  # at most two intervals between the known solutions ahead
                return w1 + t * (w1 - w0), a1 + t * (a1 - a0)
        return w1, a1

    def _whole(self, scores: Vec) -> None:
        """Make all samples active, and set their scores."""
        loop = self.loop
        for lo, hi in loop.bounds:
            np.take(scores[lo:hi], loop.tags[lo:hi] >> 1, out=loop.V[2, lo:hi])
        loop.look_at_all()

    def _scores(self) -> Vec:
        """Compute the scores of w by a product with all samples, in the order of the samples."""
        loop, scores = self.loop, np.empty(self.loop.V.shape[1])
        for X, (lo, hi), factor in zip(self.hulls.tables, loop.bounds, self.hulls.factors):
            scores[lo:hi] = X @ (factor * loop.w)
        self.monitor.passes += 0.5 * self.hulls.share
        return scores

    def _gap(self, scores: Vec) -> float:
        """Return the relative duality gap of the scores at the multipliers theta."""
        loop, size = self.loop, float(np.linalg.norm(self.loop.x))
        least = 0.0 if self.hulls.center is None else float(self.hulls.center @ loop.w) / self.c
        for (lo, hi), cap, mass, theta in zip(loop.bounds, loop.caps, loop.masses, loop.thetas):
            least += theta * mass - cap * float(np.maximum(theta - scores[lo:hi], 0.0).sum())
        length = float(np.linalg.norm(loop.w))
        return 1.0 - least / (length * size) if length * size > 0.0 else np.inf

    @property
    def proven(self) -> bool:
        """True if the compiled loop proved the tolerance in the last solve."""
        return self.loop["status"] == 1.0

    def _found(self, scores: Vec) -> Vec:
        loop, hulls, c = self.loop, self.hulls, self.c
        older = [each for each in self.known if each[0] != c]
        self.known = [*older[-2:], (c, c * loop.w, c * scores)]
        w, length = hulls.normal(loop.w), c * float(np.linalg.norm(loop.x)) * hulls.unit
        return np.zeros(hulls.form.n) if w is None or loop["status"] == 2.0 else length * w

    def weights(self) -> list[Vec]:
        """Return the weights at the last caps, as parameters by block of the form."""
        return self.hulls.blocks([self.c * q for q in self.loop.weights()])


def _caps(form: MinNorm) -> Vec:
    """Return the declared cap of each hull, not limited by its mass."""
    return np.array([g.cap for b in form.blocks for g in b.groups or ()])
