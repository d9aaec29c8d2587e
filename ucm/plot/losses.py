"""Losses are sets of weights: a loss of the margin, and the weights that it allows three samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound import Data
from ucm.errors import CompositionError, ParameterError, brief
from ucm.language.contracts import Domain, UncertaintySet
from ucm.language.domains import Simplex
from ucm.language.sets.hull import Hull
from ucm.language.statistics.samples import pos
from ucm.language.terms import ConvexLoss, Loss
from ucm.plot.outline import Outline, outline
from ucm.plot.style import LINES, Display, axes_of, canvas, palette
from ucm.plot.support import Shadow

__all__ = ["LossDisplay"]

_ACROSS = np.array([[-1.0, 1.0, 0.0], [-1.0, -1.0, 2.0]]) / np.sqrt([[2.0], [6.0]])
_REACHES = (0.48, 0.68, 0.88)  # the largest weight of a sample


@dataclass(repr=False)
class LossDisplay(Display):
    """A loss above, the set of weights of its worst case below, for three samples and several sizes.

    The triangle is the simplex of `q_1 + q_2 + q_3 = 1`, its middle the equal weights. `loss.to_set(size)`
    allows the weights in one of the shapes; larger ones allow the worst case more.

    Attributes
    ----------
    margins : (k,) the margins
    values : {name: (k,)} of each loss
    shapes : {name: outlines} of the sets of weights, from small to large; none where the loss is not convex
    sizes : {name: the size of each}
    axes_, figure_ : what was drawn on
    """

    margins: NDArray[np.float64]
    values: dict[str, NDArray[np.float64]]
    shapes: dict[str, list[Outline]]
    sizes: dict[str, list[float]]
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_loss(
        cls, loss: Loss | Sequence[Loss], *, sizes: Sequence[float] | None = None, ax: Any = None
    ) -> LossDisplay:
        """The set of every loss.

        Parameters
        ----------
        loss : one or several
        sizes : of the sets of three samples; None for three that reach 48, 68 and 88 percent on one sample
        ax : None for a new figure, or two axes for every loss: all of the first row, then all of the second

        Raises
        ------
        ParameterError
            No loss.

        Examples
        --------
        >>> import ucm
        >>> shown = ucm.plot.LossDisplay.from_loss([ucm.Hinge(), ucm.Hinge(2)])
        >>> list(shown.shapes)
        ['Hinge()', 'Hinge(p=2)']
        """
        losses = [loss] if isinstance(loss, Loss) else list(loss)
        if not losses or not all(isinstance(one, Loss) for one in losses):
            raise ParameterError(
                f"LossDisplay: expected a loss or several, got {brief(loss)}; for example [Hinge(), Hinge(2)]"
            )
        shapes, radii = {}, {}
        for one in losses:
            shapes[repr(one)], radii[repr(one)] = _sets_of(one, sizes)
        return cls._of({repr(one): one for one in losses}, shapes, radii).plot(ax)

    @classmethod
    def from_set(cls, U: UncertaintySet, *, ax: Any = None) -> LossDisplay:
        """The way back: the loss of `Hull(signed, weights=D)` or of two reduced hulls, beside D at its sizes.

        Raises
        ------
        CompositionError
            The set is that of no loss.
        """
        return cls.from_loss(U.to_loss(), ax=ax)

    @classmethod
    def _of(
        cls,
        losses: dict[str, Loss],
        shapes: dict[str, list[Outline]],
        sizes: dict[str, list[float]],
    ) -> LossDisplay:
        t = np.linspace(-1.6, 2.4, 401)
        values = {k: np.array([one.value(np.array([s])) for s in t]) for k, one in losses.items()}
        return cls(t, values, shapes, sizes)

    def plot(self, ax: Any = None) -> LossDisplay:
        """Draw again; `ax` as in `from_loss`."""
        count = len(self.values)
        with canvas():
            figure, found = axes_of(ax, 2, count, (3.5 if count > 1 else 4.6, 3.3), "LossDisplay")
            for k, name in enumerate(self.values):
                upper, lower = found[k], found[k + count]
                colours = palette(upper)
                colour = colours.series[k % len(colours.series)]
                self._loss(upper, name, colour, colours)
                if k == 0:
                    upper.set_ylabel("loss")
                self._triangle(lower, name, colour, colours)
        self.axes_, self.figure_ = found, figure
        return self

    def _loss(self, ax: Any, name: str, colour: str, colours: Any) -> None:
        t = self.margins
        ax.plot(t, np.where(t < 0.0, 1.0, 0.0), color=colours.soft, lw=1.2, ls=LINES[3], zorder=1)
        ax.plot(t, self.values[name], color=colour, lw=2.4, zorder=3)
        ax.set(xlim=(t[0], t[-1]), ylim=(-0.1, 3.1), title=name)
        ax.set_xlabel(r"margin $y\,(w^\top x + b)$")
        ax.text(-1.5, 1.06, "an error", color=colours.soft, fontsize=10.5, va="bottom")

    def _triangle(self, ax: Any, name: str, colour: str, colours: Any) -> None:
        corners = _ACROSS.T
        ax.plot(*np.vstack([corners, corners[:1]]).T, color=colours.soft, lw=1.2, zorder=1)
        for k, (at, side) in enumerate(zip(corners, ("right", "left", "center"))):
            push = (0.0, -0.05) if k < 2 else (0.0, 0.05)
            ax.text(
                at[0] + push[0],
                at[1] + push[1],
                f"$q_{k + 1} = 1$",
                color=colours.soft,
                fontsize=13,
                ha="center" if k == 2 else {"right": "left", "left": "right"}[side],
                va="top" if k < 2 else "bottom",
            )
        for shape in self.shapes[name]:
            if len(shape.vertices) > 2:
                ax.fill(*shape.vertices.T, color=colour, alpha=0.16, lw=0, zorder=2)
            ax.plot(*shape.closed.T, color=colour, lw=1.7, zorder=3)
        ax.plot(0.0, 0.0, marker="+", color=colours.ink, ms=9, mew=1.6, zorder=4)
        if not self.shapes[name]:
            ax.text(
                0.0, -0.16, "not convex:\nof no set", ha="center", va="center", color=colours.soft
            )
        ax.set(xlim=(-0.95, 0.95), ylim=(-0.66, 1.08))
        ax.set_aspect("equal")
        ax.axis("off")


def _sets_of(loss: Loss, sizes: Sequence[float] | None) -> tuple[list[Outline], list[float]]:
    """Outlines and sizes of the sets of weights, from the smallest to the largest."""
    if not isinstance(loss, ConvexLoss):
        return [], []
    if sizes is None:
        sizes = [_size_reaching(loss, reach) for reach in _REACHES]
    found = []
    for size in sizes:
        D = _weights(loss, float(size))
        if D.emptiness(3) is not None:
            raise ParameterError(
                f"LossDisplay: {loss!r}.to_set({size:g}) allows no weights of three samples: "
                f"{D.emptiness(3)}"
            )
        shape = outline(_shadow(D))
        if shape is None:
            raise RuntimeError("a part of the simplex is bounded")
        found.append((shape.size, shape, float(size)))
    found.sort(key=lambda each: each[0])
    return [shape for _, shape, _ in found], [size for *_, size in found]


def _weights(loss: ConvexLoss, size: float) -> Domain:
    # the dual of a loss has slopes alpha with some sum s, and D is the ball of (m / s) l: with s = 1 even a
    # loss whose slope is at most 1 can put all weight on one sample; a norm ball is that of any multiple
    weights = (3.0 * loss).to_set(size).weights
    return Simplex() if weights is None else weights


def _shadow(D: Domain) -> Shadow:
    """The set of weights of three samples, seen along (1, 1, 1): the hull of the three unit vectors."""
    units = Data(np.vstack([np.eye(3), np.zeros(3)]), np.array([1.0, 1.0, 1.0, -1.0]))
    return Shadow(Hull(pos, weights=D), units, _ACROSS)


def _reach(loss: ConvexLoss, size: float) -> float:
    """The largest weight of a sample; 0 where no weights are left."""
    try:
        D = _weights(loss, size)
        if D.emptiness(3) is not None:
            return 0.0
        e = _ACROSS @ np.array([0.0, 0.0, 1.0])
        length = float(np.hypot(*e))
        height, _ = _shadow(D)(e / length)
    except CompositionError:
        return 0.0
    return 1.0 / 3.0 + height * length


def _size_reaching(loss: ConvexLoss, reach: float) -> float:
    """The size at which the set reaches so far, by bisection: sizes grow or shrink the sets."""
    size = _weights(loss, 0.5).size()
    grows = size is None or size.grows
    low, high = _ends(loss, reach, grows)
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (_reach(loss, middle) < reach) == grows else (low, middle)
        if math.isclose(low, high, rel_tol=1e-6):
            break
    return high if grows else low


def _ends(loss: ConvexLoss, reach: float, grows: bool) -> tuple[float, float]:
    if not grows:
        return 1e-9, 1.0
    low = -1.0
    while _reach(loss, low) >= reach:
        low *= 2.0
    high = 1.0
    while _reach(loss, high) < reach and high < 1e6:
        high *= 2.0
    return low, high
