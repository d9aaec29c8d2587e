"""The picture of a declaration: its sets, the nearest point, the worst case, the hyperplane."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.recover import feature_normal
from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.solution import Solution
from ucm.plot.names import Names, dense, ends_of_line, settle
from ucm.plot.operands import class_extremes, class_sets, joint_means, parts_of, without_matrices
from ucm.plot.outline import Outline, shadow_outline
from ucm.plot.plane import Plane, plane_of
from ucm.plot.problem import Problem, problem_of, problem_of_estimator, thinned
from ucm.plot.style import MARKS, Display, axes_of, canvas, palette
from ucm.plot.support import Frame, Shadow

__all__ = ["SetDisplay"]

_TRIMMED = 300  # from so many samples on a few far ones do not set the frame
_PANELS = ("classes", "set")


@dataclass(repr=False)
class SetDisplay(Display):
    """A plot of the sets of a robust model over two features, or of their projections on a plane.

    Left the classes: the samples, the size of each the weight that the worst case gives it, each class's own
    set, the nearest points x+ and x- of these, the hyperplane. Right the set U itself with 0 and its point
    nearest to 0; where 0 lies in U, the level that no direction gets below.

    Attributes
    ----------
    points, y, weights : (k, 2) the samples in the plane, their classes and their weights (None without)
    samples : how many there are, more than k where they are thinned
    classes : {+1 | -1: Outline} of each class's own set
    joint : whether the two sets are of one set of weights, as over `Hull(signed)`, and do not move alone
    parts : {+1 | -1 | 0: outlines} of the operands of an intersection; 0 for U
    outline : of U
    extremes : {+1 | -1: (2,)} the worst case of each class, x+ and x-
    normal, nearest : (2,) w and x in the plane
    offset : b, None where there is none
    in_plane : whether w lies in the plane, so that what is orthogonal to it is a line
    hyperplane : (2,) normal of the classifier among the samples, w but for sets `M @ U`; None where it is no
        line in the picture
    solution : the `Solution`
    declared : U as it is written
    norm : the exponent of the norm of w
    labels : of the axes
    frames : None, or the frames of the two pictures
    axes_, figure_ : what was drawn on
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
    frames: tuple[Frame, Frame] | None = None
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_model(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        solution: Solution | None = None,
        plane: Any = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        subgroup: Any = None,
        pos_label: Any = None,
        panels: str = "both",
        rtol: float = 2e-3,
        ax: Any = None,
    ) -> SetDisplay:
        """Solve where no solution is given, trace every set, draw.

        Parameters
        ----------
        model : uncertainty set or RobustMargin
        X : (m, n) samples
        y : (m,) labels of two classes
        solution : of `ucm.solve(model, X, y)`
        plane : None, "features", "normal" or (2, n) array
            Two features need none. "normal" is spanned by w and the widest direction across it; the rows of
            an array are made orthonormal.
        class_weight, sample_weight, subgroup, pos_label : as in `ucm.compile`
        panels : "both", "classes" or "set"
        rtol : bound of the error of an outline, as a part of its diameter
        ax : None for a new figure, or as many axes as pictures are shown

        Raises
        ------
        ParameterError
            The plane, `panels` or `ax` do not fit; a kernel.
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
        given = {
            "class_weight": class_weight,
            "sample_weight": sample_weight,
            "subgroup": subgroup,
            "pos_label": pos_label,
        }
        found = problem_of(model, X, y, solution, "SetDisplay", **given)
        return cls._of(found, plane, rtol).plot(ax, panels=panels)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, plane: Any = None, panels: str = "both", rtol: float = 2e-3,
        ax: Any = None,
    ) -> SetDisplay:  # fmt: skip
        """As `from_model`, of a fitted `ucm.Classifier` and the samples it was fitted to."""
        found = problem_of_estimator(estimator, X, y, "SetDisplay")
        return cls._of(found, plane, rtol).plot(ax, panels=panels)

    @classmethod
    def _of(cls, found: Problem, plane: Any, rtol: float) -> SetDisplay:
        """The numbers of the picture."""
        data, solution, U = found.data, found.solution, found.model.set
        w, x = np.asarray(solution.w), np.asarray(solution.x)
        elsewhere = U.dimension(data.n) != data.n
        if elsewhere and plane is None and w.size == 2:
            where = Plane(np.eye(2), ("$z_1$", "$z_2$"))
        else:
            bound = Data(np.zeros((1, w.size)), np.ones(1)) if elsewhere else data
            where = plane_of(plane, bound, w, None if elsewhere else found.names, "SetDisplay")
        P = where.P
        rows = thinned(data.y, solution.weights)
        points = np.zeros((0, 2)) if elsewhere else np.asarray(data.X[rows] @ P.T)
        weights = None if solution.weights is None else solution.weights[rows]
        classes, parts, joint = {}, {}, False
        extremes = {}
        frame = Frame.around(points, (P @ x)[None], room=2.0)
        if not elsewhere and without_matrices(U):
            operands = class_sets(U)
            for sign, V in operands.items():
                classes[sign] = shadow_outline(Shadow(V, data, P), frame, rtol=rtol)
                parts[sign] = parts_of(V, data, P, frame, rtol)
            if not operands:
                classes = joint_means(U, data, P, rtol)
                joint = bool(classes)
            extremes = {k: P @ p for k, p in class_extremes(U, found).items()}
        spread = np.ptp(points, axis=0).max() if len(points) else 0.0
        ends = P @ x + 0.6 * spread * np.array([[-1.0, -1.0], [1.0, 1.0]])
        far = Frame.around(np.zeros((1, 2)), (P @ x)[None], ends, room=1.5)
        among = None if elsewhere else feature_normal(U, w)
        return cls(
            points=points,
            y=data.y[rows],
            weights=weights,
            samples=data.m,
            classes=classes,
            joint=joint,
            parts={**parts, 0: parts_of(U, data, P, far, rtol)},
            outline=shadow_outline(Shadow(U, data, P), far, rtol=rtol),
            extremes=extremes,
            normal=P @ w,
            nearest=P @ x,
            offset=None if elsewhere else solution.b,
            in_plane=where.holds(w),
            hyperplane=None if among is None or not where.holds(among) else P @ among,
            solution=solution,
            declared=f"U = {U!r}",
            norm=found.model.norm,
            labels=where.labels,
        )

    @property
    def zero_inside(self) -> bool:
        """Whether 0 lies in U."""
        return self.solution.certificate.residual is not None or not np.any(self.normal)

    @property
    def ax_(self) -> Any:
        """The axes, where there is one picture."""
        return self.axes_[0]

    def plot(self, ax: Any = None, *, panels: str = "both") -> SetDisplay:
        """Draw again.

        Parameters
        ----------
        ax : None for a new figure, or as many axes as pictures are shown
        panels : "both", "classes" (needs samples in the space of U) or "set"
        """
        wanted = self._shown(panels)
        with canvas():
            figure, found = axes_of(ax, 1, len(wanted), (5.4, 5.2), "SetDisplay")
            pictures = list(zip(wanted, found))
            for what, a in pictures:
                self.prepare(a, what)
            if ax is None:
                soft = palette(found[0]).soft
                text = figure.suptitle(
                    _short(self.declared), family="monospace", fontsize=10, color=soft
                )
                text.set(x=0.02, ha="left")
            settle(figure)
            for what, a in pictures:
                self.draw(a, what)
        self.axes_, self.figure_ = found, figure
        return self

    def prepare(self, ax: Any, what: str) -> None:
        """Frame, names of the axes and title of one picture: what its layout depends on."""
        frame = self.frame(what)
        (x, y), h = frame.middle, frame.half
        ax.set(
            xlim=(x - h, x + h), ylim=(y - h, y + h), xlabel=self.labels[0], ylabel=self.labels[1]
        )
        ax.set_box_aspect(1)
        self._title(ax, what)

    def draw(self, ax: Any, what: str, *, names: bool = True) -> None:
        """Draw one picture, "classes" or "set", into prepared axes."""
        (self._classes if what == "classes" else self._set)(ax, Names(ax, silent=not names))

    def _shown(self, panels: str) -> tuple[str, ...]:
        if panels not in ("both", *_PANELS):
            raise ParameterError(
                f'SetDisplay: panels is "both", "classes" or "set", got {panels!r}; leave it out for "both"'
            )
        if panels == "classes" and not len(self.points):
            raise ParameterError(
                "SetDisplay: U lives in another space than the samples, so that there is no picture of the "
                'classes; use panels="set"'
            )
        if panels == "both":
            return _PANELS if len(self.points) else ("set",)
        return (panels,)

    def frame(self, what: str) -> Frame:
        """The frame of one picture."""
        if self.frames is not None:
            return self.frames[_PANELS.index(what)]
        if what == "set" and self.outline.frame is not None:
            cut = self.outline.frame
            return Frame(cut.middle, 0.97 * cut.half)
        if what == "set":
            return Frame.around(
                np.zeros((1, 2)), self.nearest[None], _bounded(self.outline), room=1.24
            )
        clouds = [self._core(), *(_bounded(o) for o in self.classes.values())]
        return Frame.around(*clouds, *(p[None] for p in self.extremes.values()))

    def _core(self) -> NDArray[np.float64]:
        """The samples that set the frame: all, or of many those that are not far out."""
        if len(self.points) < _TRIMMED:
            return self.points
        return np.quantile(self.points, [0.005, 0.995], axis=0)

    # --- the classes -----------------------------------------------------------------------
    def _classes(self, ax: Any, names: Names) -> None:
        colours = palette(ax)
        width = ax.get_window_extent().width / ax.figure.dpi
        room = min(1.0, np.sqrt(150.0 / max(len(self.points), 1))) * min(1.0, (width / 3.6) ** 2)
        for sign in (1, -1):
            mine = self.y == sign
            size = np.full(int(mine.sum()), 34.0 * room)
            if self.weights is not None and self.weights.max() > 0.0:
                size = (16.0 + 120.0 * self.weights[mine] / self.weights.max()) * room
            ax.scatter(
                *self.points[mine].T, s=size, marker=MARKS[sign], color=colours.of(sign), linewidth=0.6,
                edgecolor=colours.paper, alpha=0.75, zorder=3, label=f"class {sign:+d}",
            )  # fmt: skip
            names.avoid(self.points[mine], weight=1.0)
            if sign in self.classes:
                _area(ax, self.classes[sign], colours.of(sign), dashed=self.joint)
                names.avoid(dense(self.classes[sign].closed))
            for part in self.parts.get(sign, []):
                ax.plot(*part.rim.T, color=colours.of(sign), lw=1.0, ls=(0, (2, 2)), zorder=2)
        pair = np.array(list(self.extremes.values())).reshape(-1, 2)
        if len(pair) == 2:
            ax.plot(*pair.T, color=colours.ink, lw=1.4, ls=(0, (3, 2)), zorder=4)
            names.avoid(dense(pair, 40))
            for sign in (1, -1):
                ax.plot(
                    *self.extremes[sign],
                    marker="D",
                    ms=8,
                    mfc=colours.of(sign),
                    mec=colours.ink,
                    mew=1.1,
                    zorder=6,
                )
        if self.offset is not None and self.hyperplane is not None and np.any(self.hyperplane):
            ends = ends_of_line(ax, self.hyperplane, -self.offset)
            if ends is not None:
                ax.plot(*ends.T, color=colours.ink, lw=1.8, zorder=2.5, gid="hyperplane")
                names.avoid(dense(ends, 200))
                names.along(r"$w^\top x + b = 0$", ends, colours.ink, size=13)
        if len(pair) == 2:
            middle = pair.mean(axis=0)
            for sign, word in ((1, "$x_+$"), (-1, "$x_-$")):
                p = self.extremes[sign]
                away = p - middle if np.any(p != middle) else sign * self.normal
                names.beside(word, p, colours.ink, away=away, size=16)
        frame = self.frame("classes")
        for sign in (1, -1):
            cloud = self.points[self.y == sign]
            inside = np.abs(cloud - frame.middle).max(axis=1) < 0.97 * frame.half
            if inside.any():
                away = cloud.mean(axis=0) - self.points[self.y != sign].mean(axis=0)
                names.around(
                    f"class {sign:+d}", cloud[inside], colours.of(sign), away=away, size=13
                )
        self._notes(ax, colours, names)

    def _notes(self, ax: Any, colours: Any, names: Names) -> None:
        """Write into the picture what it leaves out."""
        words = []
        if self.samples > len(self.points):
            words.append(f"{len(self.points):,} of {self.samples:,} samples")
        frame = self.frame("classes")
        outside = int((np.abs(self.points - frame.middle).max(axis=1) > frame.half).sum())
        if outside:
            words.append(f"{outside} outside of the frame")
        if self.hyperplane is None and np.any(self.normal):
            words.append("$w$ leaves this plane: no line")
        words += ["unbounded"] * any(o.frame is not None for o in self.classes.values())
        _note(names, frame, words, colours.soft)

    # --- U -----------------------------------------------------------------------------------
    def _set(self, ax: Any, names: Names) -> None:
        colours = palette(ax)
        U = self.outline
        _area(ax, U, colours.sum)
        for part in self.parts.get(0, []):
            ax.plot(*part.rim.T, color=colours.sum, lw=1.0, ls=(0, (2, 2)), zorder=2)
            names.avoid(dense(part.closed))
        names.avoid(dense(U.closed))
        ax.plot(0.0, 0.0, marker="+", ms=15, mew=2.4, color=colours.ink, zorder=6, gid="origin")
        names.avoid(np.zeros((1, 2)))
        to, colour, word = self.nearest, colours.ink, "$x^*$"
        level, text, hue = None, "", colours.sum
        if self.zero_inside:
            to, colour, hue = self._deepest(), colours.alert, colours.alert
            level, text = None, ""
            word = ""
            if to is not None and self.in_plane:
                w = self.normal / np.hypot(*self.normal)
                level = float(w @ to)
                text = r"$\min_U \; w^\top x$"
        elif self.in_plane:
            level = float(self.normal @ self.nearest)
            text = r"$w^\top x = \mathrm{dist}$"
        if level is not None:
            ends = ends_of_line(
                ax,
                self.normal / np.hypot(*self.normal),
                level / (1.0 if self.zero_inside else np.hypot(*self.normal)),
            )
            if ends is not None:
                ax.plot(*ends.T, color=hue, lw=1.4, zorder=2.5, gid="support")
                names.avoid(dense(ends, 200))
                names.along(text, ends, hue, size=13)
        if self.norm != 2.0 and not self.zero_inside and self.in_plane:
            ball = _ball(self.norm, -self.solution.objective)
            ax.plot(*ball.T, color=colours.soft, lw=1.2, ls=(0, (2, 2)), zorder=2)
            names.avoid(dense(ball))
        if to is not None and np.any(to):
            names.avoid(dense(np.array([np.zeros(2), to]), 40))
            ax.annotate(
                "",
                to,
                (0.0, 0.0),
                zorder=5,
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "lw": 2.0,
                    "shrinkA": 0,
                    "shrinkB": 3,
                    "mutation_scale": 16,
                },
            )
            ax.plot(
                *to, marker="D", ms=8, mfc=hue, mec=colours.ink, mew=1.1, zorder=6, gid="nearest"
            )
        away = -to if to is not None and np.any(to) else np.array([-1.0, -1.0])
        names.beside("$0$", (0.0, 0.0), colours.ink, away=away, size=16)
        if word:
            names.beside(word, self.nearest, colours.ink, away=self.nearest - _middle(U), size=16)
        places = [_middle(U) + s * 0.3 * U.size * np.array([np.cos(t), np.sin(t)])
                  for s in (0.0, 0.5, 1.0) for t in np.arange(8) * np.pi / 4.0]  # fmt: skip
        names.at("$U$", places, colours.sum, size=20)
        words = ["unbounded"] if U.frame is not None else []
        if not self.in_plane and np.any(self.normal):
            words.append("a shadow of $U$")
        _note(names, self.frame("set"), words, colours.soft)

    def _deepest(self) -> Vec | None:
        """0 lies in U: the foot on the level `min w'x`, of U's least reach from 0."""
        size = float(np.hypot(*self.normal))
        if size == 0.0:
            return None
        w = self.normal / size
        return w * float((self.outline.vertices @ w).min())

    def _title(self, ax: Any, what: str) -> None:
        if what == "classes":
            if self.joint:
                ax.set_title("the classes, and where their means may lie")
            else:
                ax.set_title("the classes and their sets" if self.classes else "the classes")
        elif self.zero_inside:
            ax.set_title("$0 \\in U$: not convex")
        else:
            ax.set_title(f"distance of $U$ from 0: {-self.solution.objective:.3g}")


def _note(names: Names, frame: Frame, words: list[str], color: str) -> None:
    if words:
        x, y, h = *frame.middle, frame.half
        across, up = np.linspace(0.7, -0.7, 15), (-0.94, -0.88, -0.82, 0.94, 0.88, 0.82)
        places = [(x + s * h, y + t * h) for t in up for s in across]
        names.at("\n".join(words), places, color, size=11)


def _area(ax: Any, shape: Outline, color: str, dashed: bool = False) -> None:
    if len(shape.vertices) > 2:
        ax.fill(*shape.vertices.T, color=color, alpha=0.18, lw=0, zorder=1)
    style = (0, (5, 1.5)) if dashed else "-"
    ax.plot(*shape.rim.T, color=color, lw=1.9, ls=style, zorder=2, solid_capstyle="round")


def _middle(shape: Outline) -> Vec:
    return 0.5 * (shape.vertices.min(axis=0) + shape.vertices.max(axis=0))


def _bounded(shape: Outline) -> NDArray[np.float64]:
    """The vertices, of an unbounded set those in the middle of its frame."""
    if shape.frame is None:
        return shape.vertices
    f = shape.frame
    near = np.abs(shape.vertices - f.middle).max(axis=1) < 0.5 * f.half
    return shape.vertices[near]


def _ball(p: float, radius: float) -> NDArray[np.float64]:
    """The circle of a norm around 0, that of the space of x: dual to the norm p of w."""
    t = np.linspace(0.0, 2.0 * np.pi, 721)
    u = np.c_[np.cos(t), np.sin(t)]
    q = 1.0 if p == np.inf else np.inf if p == 1.0 else p / (p - 1.0)
    return radius * u / np.linalg.norm(u, ord=q, axis=1)[:, None]


def _short(text: str, longest: int = 104) -> str:
    """A declaration on one line, a `Param` by its value."""
    text = re.sub(r"Param\('(\w+)', ([^)]*)\)", r"\2", text)
    return text if len(text) <= longest else text[: longest - 2] + " …"
