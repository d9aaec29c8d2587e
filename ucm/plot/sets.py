"""`SetDisplay`: the sets of a robust model, with the nearest point, the worst case and the hyperplane."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, TypeGuard, Unpack

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.recover import class_points, feature_normal
from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.data.options import one_of
from ucm.errors import ParameterError
from ucm.forms.solution import Solution
from ucm.language.contracts import UncertaintySet
from ucm.language.robust import dual_exponent
from ucm.language.sets.combination import summands
from ucm.language.sets.hull import Hull
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.samples import kinds_of, signed
from ucm.plot.outline import Frame, Outline, Projection, outline, projection_outline, unit_vectors
from ucm.plot.problem import Problem, SampleOptions, plane_of, problem_of, problem_of_estimator, subsample
from ucm.plot.style import LINES, MARKS, Display, arrow, diamond, label, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = ("classes", "set")
_TRIMMED = 300  # number of samples from which on the frame ignores outliers


@dataclass(repr=False)
class SetDisplay(Display):
    """A plot of the sets of a robust model over two features, or of their projections on a plane.

    The left panel shows the samples, with areas proportional to their weights in the worst case, the set of
    each class, the nearest points x+ and x- of these sets, and the hyperplane. The right panel shows U, 0 and
    the point of U nearest to 0; if 0 lies in U, the least `min w'x over U` in place of the nearest point.

    Attributes
    ----------
    points, y, weights : (k, 2) projected samples, their classes and their weights (None without)
    samples : their number, larger than k if the picture shows a subsample
    classes : {+1 | -1: Outline} the set of each class
    joint : whether the two sets share one vector of weights, as of `Hull(signed)`
    parts : {+1 | -1 | 0: outlines} of the operands of an intersection; 0 for U
    outline : of U
    extremes : {+1 | -1: (2,)} the worst case of each class, x+ and x-
    normal, nearest : (2,) projections of w and x
    offset : b, or None
    in_plane : whether w lies in the plane, so that level sets of `w'x` are lines
    hyperplane : (2,) projected normal of the classifier, w except for sets `M @ U`; None if it leaves the
        plane
    solution : the `Solution`
    declared : U as declared
    norm : the exponent of the norm of w
    labels : of the axes
    class_names : {+1 | -1: text} of the legend
    frames : None, or the frames of the two panels
    axes_, figure_ : of the last `plot`
    """

    points: NDArray[np.float64]
    y: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    samples: int
    classes: dict[int, Outline]
    joint: bool
    parts: dict[int, list[Outline]]
    outline: Outline
    extremes: dict[int, Vec]
    normal: Vec
    nearest: Vec
    offset: float | None
    in_plane: bool
    hyperplane: Vec | None
    solution: Solution
    declared: str
    norm: float
    labels: tuple[str, str]
    class_names: dict[int, str]
    frames: tuple[Frame, Frame] | None = None

    @classmethod
    def from_model(
        cls, model: object, X: object, y: object, *, solution: Solution | None = None, plane: object = None,
        panels: str = "both", rtol: float = 2e-3, ax: object = None, **options: Unpack[SampleOptions],
    ) -> SetDisplay:  # fmt: skip
        """Plot the sets of a model over its samples; solve the model if no solution is given.

        Parameters
        ----------
        model : uncertainty set or RobustMargin
        X : (m, n) samples
        y : (m,) labels of two classes
        solution : of `ucm.solve(model, X, y)`
        plane : None, "features", "normal" or (2, n) array
            None is "features", for two features. "normal" is spanned by w and the direction of largest
            variance orthogonal to w; the rows of an array are made orthonormal.
        panels : "both", "classes" or "set"
        rtol : bound of the error of an outline, as a part of its diameter
        ax : None for a new figure, or one axes for each panel
        options : class_weight, sample_weight, subgroup and pos_label, as in `ucm.compile`

        Raises
        ------
        ParameterError
            The plane, `panels` or `ax` are not valid; the solution is of a kernel.
        EmptySetError, DataError, CompositionError
            As in `ucm.compile`.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.SetDisplay.from_model(ucm.models.nu_svm(0.3), X[:, [0, 6]], y)
        >>> shown.outline.error <= 2e-3 * shown.outline.size
        True
        """
        problem = problem_of(model, X, y, solution, "SetDisplay", **options)
        return cls._of_problem(problem, plane, rtol).plot(ax, panels=panels)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: object, y: object, *, plane: object = None, panels: str = "both",
        rtol: float = 2e-3, ax: object = None,
    ) -> SetDisplay:  # fmt: skip
        """Plot the sets for a fitted `ucm.Classifier` and its training samples X and y.

        The classifier may be the last step of a pipeline, or the best estimator of a search.
        """
        problem = problem_of_estimator(estimator, X, y, "SetDisplay")
        return cls._of_problem(problem, plane, rtol).plot(ax, panels=panels)

    @classmethod
    def _of_problem(cls, problem: Problem, plane: object, rtol: float) -> SetDisplay:
        """Return the display of a solved problem, without drawing."""
        data, solution, U = problem.data, problem.solution, problem.model.set
        w = np.asarray(solution.w, dtype=np.float64)
        x = np.asarray(solution.x, dtype=np.float64)
        other_space = w.size != data.n
        bound, names = data, problem.names
        if other_space:
            bound = Data(np.zeros((1, w.size)), np.ones(1))
            names = [f"$z_{{{j + 1}}}$" for j in range(w.size)]
        view = plane_of(plane, bound, w, names, "SetDisplay")
        P = view.P
        rows = subsample(data.y, solution.weights)
        points = np.zeros((0, 2)) if other_space else np.asarray(data.X[rows] @ P.T)
        frame = Frame.around(points, (P @ x)[None], margin=2.0)
        classes, parts, extremes, joint = {}, {}, {}, False
        if not other_space and not _has_matrix(U):
            sets = _class_sets(U)
            for sign, V in sets.items():
                classes[sign] = projection_outline(Projection(V, data, P), frame, rtol=rtol)
                parts[sign] = _operand_outlines(V, data, P, frame, rtol)
            if not sets:
                classes = _joint_means(U, data, P, rtol)
                joint = bool(classes)
            extremes = {k: P @ p for k, p in _class_extremes(U, data, solution).items()}
        spread = np.ptp(points, axis=0).max() if len(points) else 0.0
        corners = P @ x + 0.6 * spread * np.array([[-1.0, -1.0], [1.0, 1.0]])
        set_frame = Frame.around(np.zeros((1, 2)), (P @ x)[None], corners, margin=1.5)
        normal = None if other_space else feature_normal(U, w)
        return cls(
            points=points,
            y=data.y[rows],
            weights=None if solution.weights is None else solution.weights[rows],
            samples=data.m,
            classes=classes,
            joint=joint,
            parts={**parts, 0: _operand_outlines(U, data, P, set_frame, rtol)},
            outline=projection_outline(Projection(U, data, P), set_frame, rtol=rtol),
            extremes=extremes,
            normal=P @ w,
            nearest=P @ x,
            offset=None if other_space else solution.b,
            in_plane=view.contains(w),
            hyperplane=None if normal is None or not view.contains(normal) else P @ normal,
            solution=solution,
            declared=f"U = {U!r}",
            norm=problem.model.norm,
            labels=view.labels,
            class_names=problem.class_names,
        )

    @property
    def zero_inside(self) -> bool:
        """True if 0 lies in U."""
        return self.solution.certificate.residual is not None or not np.any(self.normal)

    def plot(self, ax: object = None, *, panels: str = "both") -> SetDisplay:
        """Draw the panels into the given axes, or into a new figure.

        Parameters
        ----------
        ax : None for a new figure, or one axes for each panel
        panels : "both", "classes" (needs samples in the space of U) or "set"
        """
        chosen = self._panels(panels)
        with self._axes(ax, 1, len(chosen), (5.4, 5.2)) as axes:
            for panel, a in zip(chosen, axes):
                self.draw(a, panel)
            if ax is None:
                style: dict = {"family": "monospace", "fontsize": 10, "ha": "left"}
                text = _shortened(self.declared)
                self.figure_.suptitle(text, x=0.02, color=palette(axes[0]).soft, **style)
        return self

    def _panels(self, panels: str) -> tuple[str, ...]:
        """Return the names of the panels to draw for the option "both", "classes" or "set"."""
        one_of("both", *PANELS).check("SetDisplay", "panels", panels, 'leave it out for "both"')
        if panels == "classes" and not len(self.points):
            raise ParameterError(
                "SetDisplay: U is in another space than the samples, so that the classes have no panel; "
                'use panels="set"'
            )
        if panels == "both":
            return PANELS if len(self.points) else ("set",)
        return (panels,)

    def draw(self, ax: Axes, panel: str, *, labelled: bool = True) -> None:
        """Draw the panel "classes" or "set", with a legend and the names of points if `labelled`."""
        (x, y), h = self.frame(panel).middle, self.frame(panel).half
        ax.set(xlim=(x - h, x + h), ylim=(y - h, y + h), xlabel=self.labels[0], ylabel=self.labels[1])
        ax.set_box_aspect(1)
        if panel == "set":
            distance = f"distance of $U$ from 0: {-self.solution.objective:.3g}"
            ax.set_title("$0 \\in U$: not convex" if self.zero_inside else distance)
        elif self.joint:
            ax.set_title("the classes and the set of their means")
        else:
            ax.set_title("the classes and their sets" if self.classes else "the classes")
        notes = self._draw_classes(ax, labelled) if panel == "classes" else self._draw_set(ax, labelled)
        if labelled:
            ax.legend(loc="best", title="\n".join(notes), alignment="left")

    def frame(self, panel: str) -> Frame:
        """Return the square of the plane that a panel shows."""
        if self.frames is not None:
            return self.frames[PANELS.index(panel)]
        if panel == "set" and self.outline.frame is not None:
            bounds = self.outline.frame
            return Frame(bounds.middle, 0.97 * bounds.half)
        if panel == "set":
            zero = np.zeros((1, 2))
            return Frame.around(zero, self.nearest[None], self.outline.vertices, margin=1.24)
        points = self.points
        if len(points) >= _TRIMMED:
            points = np.quantile(points, [0.005, 0.995], axis=0)
        clouds = [points, *(_bounded_part(o) for o in self.classes.values())]
        return Frame.around(*clouds, *(p[None] for p in self.extremes.values()))

    def _draw_classes(self, ax: Axes, labelled: bool) -> list[str]:
        """Draw the samples, the set of each class and the hyperplane; return notes for the legend."""
        colours, frame = palette(ax), self.frame("classes")
        width = ax.get_window_extent().width / ax.figure.dpi
        unit = min(1.0, np.sqrt(150.0 / max(len(self.points), 1))) * min(1.0, (width / 3.6) ** 2)
        area = np.full(len(self.points), 34.0 * unit)
        if self.weights is not None and self.weights.max() > 0.0:
            area = (16.0 + 120.0 * self.weights / self.weights.max()) * unit
        for sign in (1, -1):
            members, colour = self.y == sign, colours.class_color(sign)
            ax.scatter(
                *self.points[members].T, s=area[members], marker=MARKS[sign], color=colour, linewidth=0.6,
                edgecolor=colours.paper, alpha=0.75, zorder=3, label=self.class_names[sign],
            )  # fmt: skip
            if sign in self.classes:
                _fill(ax, self.classes[sign], colour, LINES[1] if self.joint else "-")
            for part in self.parts.get(sign, []):
                _dashed(ax, part.rim, colour)
        pair = np.array(list(self.extremes.values())).reshape(-1, 2)
        ax.plot(*pair.T, color=colours.ink, lw=1.4, ls=(0, (3, 2)), zorder=4)
        if self.offset is not None and self.hyperplane is not None and np.any(self.hyperplane):
            text = r"$w^\top x + b = 0$"
            _line(ax, frame, self.hyperplane, -self.offset, text, colours.ink, gid="hyperplane")
        for sign, p in self.extremes.items():
            diamond(ax, p, colours.class_color(sign))
            if labelled:
                away = p - pair.mean(axis=0) if np.ptp(pair, axis=0).any() else sign * self.normal
                label(ax, "$x_+$" if sign > 0 else "$x_-$", p, away, colours.ink)
        outside = np.count_nonzero(np.abs(self.points - frame.middle).max(axis=1) > frame.half)
        notes = {
            f"{len(self.points):,} of {self.samples:,} samples": self.samples > len(self.points),
            f"{outside} outside of the frame": outside > 0,
            "$w$ is not in this plane: no line": self.hyperplane is None and bool(np.any(self.normal)),
            "unbounded": any(o.frame is not None for o in self.classes.values()),
        }
        return [note for note, holds in notes.items() if holds]

    def _draw_set(self, ax: Axes, labelled: bool) -> list[str]:
        """Draw U, 0, and the nearest point, or the worst case if 0 lies in U; return legend notes."""
        colours, U, frame = palette(ax), self.outline, self.frame("set")
        _fill(ax, U, colours.sum, name="$U$")
        for part in self.parts.get(0, []):
            _dashed(ax, part.rim, colours.sum)
        ax.plot(0.0, 0.0, marker="+", ms=15, mew=2.4, color=colours.ink, zorder=6, gid="origin")
        tip, text, colour = self.nearest, r"$w^\top x = \mathrm{dist}$", colours.sum
        size = float(np.hypot(*self.normal))
        if self.zero_inside:
            text, colour = r"$\min_U \; w^\top x$", colours.alert
            u = self.normal / (size or 1.0)
            tip = u * float((U.vertices @ u).min())
        if self.in_plane and size > 0.0:
            _line(ax, frame, self.normal, float(self.normal @ tip), text, colour, gid="support")
        if self.norm != 2.0 and not self.zero_inside and self.in_plane:
            sphere = unit_vectors(np.linspace(0.0, 2.0 * np.pi, 721), dual_exponent(self.norm))
            _dashed(ax, -self.solution.objective * sphere, colours.soft)
        if np.any(tip):
            arrow(ax, tip, colours.alert if self.zero_inside else colours.ink)
            diamond(ax, tip, colour, gid="nearest")
        if labelled:
            label(ax, "$0$", np.zeros(2), -tip if np.any(tip) else np.array([-1.0, -1.0]), colours.ink)
        if labelled and not self.zero_inside:
            middle = 0.5 * (U.vertices.min(axis=0) + U.vertices.max(axis=0))
            label(ax, "$x^*$", self.nearest, self.nearest - middle, colours.ink)
        projected = not self.in_plane and bool(np.any(self.normal))
        notes = {"unbounded": U.frame is not None, "a projection of $U$": projected}
        return [note for note, holds in notes.items() if holds]


def _line(ax: Axes, frame: Frame, w: Vec, height: float, text: str, color: str, gid: str) -> None:
    """Draw the line `<w, z> = height` across a frame."""
    u = w / np.hypot(*w)
    center = frame.middle + (height / float(np.hypot(*w)) - float(u @ frame.middle)) * u
    reach = 2.0 * frame.half * np.array([-u[1], u[0]])
    ends = np.array([center - reach, center + reach])
    ax.plot(*ends.T, color=color, lw=1.6, zorder=2.5, gid=gid, label=text)


def _fill(ax: Axes, shape: Outline, color: str, dashes: str | tuple = "-", name: str | None = None) -> None:
    solid = len(shape.vertices) > 2
    if solid:
        ax.fill(*shape.vertices.T, color=color, alpha=0.18, lw=0, zorder=1, label=name)
    style = {"color": color, "lw": 1.9, "ls": dashes, "solid_capstyle": "round"}
    ax.plot(*shape.rim.T, zorder=3.5, label=None if solid else name, **style)


def _dashed(ax: Axes, curve: NDArray[np.float64], color: str) -> None:
    ax.plot(*curve.T, color=color, lw=1.1, ls=(0, (2, 2)), zorder=2)


def _bounded_part(shape: Outline) -> NDArray[np.float64]:
    """Return the vertices; of an unbounded set only the vertices in the central half of the frame."""
    if shape.frame is None:
        return shape.vertices
    f = shape.frame
    return shape.vertices[np.abs(shape.vertices - f.middle).max(axis=1) < 0.5 * f.half]


def _shortened(text: str, longest: int = 104) -> str:
    """Return a declaration as text of at most `longest` characters, with values in place of `Param`s."""
    text = re.sub(r"Param\('(\w+)', ([^)]*)\)", r"\2", text)
    return text if len(text) <= longest else text[: longest - 2] + " …"


_SIGN = {"pos": 1, "neg": -1}


# --- sets of the classes, operands, worst case -------------------------------------------------------
def _has_matrix(U: UncertaintySet) -> bool:
    """True if a summand of U is the image of a set under a matrix."""
    return any(math.isnan(c) for _, c in summands(U))


def _class_sets(U: UncertaintySet) -> dict[int, UncertaintySet]:
    """Return {+1: U+, -1: U-} with U = U+ - U-; empty if U is not such a difference of class sets.

    Summands without samples are left out. Empty also if a summand takes the samples of both classes.
    """
    terms: dict[int, list[UncertaintySet]] = {1: [], -1: []}
    for V, c in summands(U):
        kinds = kinds_of(V)
        if len(kinds) > 1 or kinds == {"signed"}:
            return {}
        for kind in kinds:
            sign = _SIGN[kind]
            terms[sign].append(V if sign * c == 1.0 else float(sign * c) * V)
    return {sign: reduce(add, sets) for sign, sets in terms.items()} if all(terms.values()) else {}


def _operands(U: UncertaintySet) -> list[UncertaintySet]:
    if isinstance(U, Intersection):
        return _operands(U.left) + _operands(U.right)
    if isinstance(U, ConvexUnion):
        return [A for V in U.sets for A in _operands(V)]
    return [U]


def _operand_outlines(
    V: UncertaintySet, data: Data, P: NDArray[np.float64], frame: Frame, rtol: float
) -> list[Outline]:
    """Return the outlines of the operands of an intersection or a union; empty for another set."""
    if not isinstance(V, Intersection | ConvexUnion):
        return []
    return [projection_outline(Projection(A, data, P), frame, rtol=rtol) for A in _operands(V)]


def _is_joint_hull(U: UncertaintySet) -> TypeGuard[Hull]:
    return isinstance(U, Hull) and U.samples == signed


def _joint_means(U: UncertaintySet, data: Data, P: NDArray[np.float64], rtol: float) -> dict[int, Outline]:
    """Return for `Hull(signed)` twice the weighted means of each class, outlined; empty for another set."""
    if not _is_joint_hull(U):
        return {}
    outlines = {}
    if len(U.pieces(data)) > 1:
        return {}
    for sign in (1, -1):
        rows = np.flatnonzero(data.y == sign)
        points = np.asarray(data.X[rows] @ P.T)

        def support(e: Vec, rows: Any = rows, points: Any = points) -> tuple[float, Vec]:
            g = np.zeros(data.m)
            g[rows] = 2.0 * points @ e
            height, q = U.coefficient_support(data, g, {})
            if q is None:
                raise RuntimeError("one domain knows its maximiser")
            return height, 2.0 * points.T @ q[rows]

        shape = outline(support, rtol=rtol)
        if shape is not None:
            outlines[sign] = shape
    return outlines


def _class_extremes(U: UncertaintySet, data: Data, solution: Solution) -> dict[int, Vec]:
    """Return the worst-case points {+1: x+, -1: x-} of the classes; empty if undefined."""
    answer, weights = solution.answer, solution.weights
    if answer is not None and answer.q:
        pair = class_points(U, data, answer.q)
        if pair is not None:
            return {1: pair[0], -1: pair[1]}
    if weights is None or not _is_joint_hull(U):
        return {}
    if not all(weights[data.y == sign].sum() > 0.0 for sign in (1, -1)):
        return {}
    return {
        sign: np.asarray(data.X[data.y == sign].T @ q).ravel() / q.sum()
        for sign in (1, -1)
        for q in (weights[data.y == sign],)
    }
