"""Which samples the worst case weighs: the weights of one model or of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.errors import CompositionError, ParameterError, brief
from ucm.forms.solution import Solution
from ucm.plot.names import Names, dense, settle
from ucm.plot.problem import MOST, problem_of, problem_of_estimator
from ucm.plot.style import LINES, Display, axes_of, canvas, palette

__all__ = ["WeightsDisplay"]


@dataclass(repr=False)
class WeightsDisplay(Display):
    """A plot of the worst-case weights of the samples of each class, in descending order.

    A weight is given as a multiple of that of a sample when all of its class weigh the same, so that the line
    at 1 is the mean. Where a curve meets 0, the samples with weight end.

    Attributes
    ----------
    weights : {model: {+1 | -1: (m_o,) multiples, from large to small}}
    support : {model: {+1 | -1: how many samples have weight}}
    axes_, figure_ : what was drawn on
    """

    weights: dict[str, dict[int, NDArray[np.float64]]]
    support: dict[str, dict[int, int]]
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_model(
        cls, model: Any, X: Any, y: Any, *, solution: Solution | None = None,
        class_weight: Any = None, sample_weight: Any = None, subgroup: Any = None,
        pos_label: Any = None, ax: Any = None,
    ) -> WeightsDisplay:  # fmt: skip
        """Solve where no solution is given, draw.

        Parameters
        ----------
        model : uncertainty set or RobustMargin made of samples, or {name: model}
        X, y : as in `ucm.compile`
        solution : of one model
        class_weight, sample_weight, subgroup, pos_label : as in `ucm.compile`
        ax : None for a new figure, or one axes for each model

        Raises
        ------
        CompositionError
            The set is not made of samples, as an ellipsoid of means and covariances.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.WeightsDisplay.from_model(ucm.models.nu_svm(0.3), X, y)
        >>> round(float(shown.weights[""][1].mean()), 9)
        1.0
        """
        if isinstance(model, Mapping):
            if not model or solution is not None:
                raise ParameterError(
                    "WeightsDisplay: give one model and its solution, or {name: model} without one; got "
                    f"{brief(model)}"
                )
            named = dict(model)
        else:
            named = {"": model}
        found = {}
        for name, one in named.items():
            problem = problem_of(
                one,
                X,
                y,
                solution,
                "WeightsDisplay",
                class_weight=class_weight,
                sample_weight=sample_weight,
                subgroup=subgroup,
                pos_label=pos_label,
            )
            found[name] = (problem.solution, problem.data.y)
        return cls._of(found, named).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> WeightsDisplay:
        """As `from_model`, of a fitted `ucm.Classifier` and the samples it was fitted to."""
        problem = problem_of_estimator(estimator, X, y, "WeightsDisplay")
        return cls._of({"": (problem.solution, problem.data.y)}, {"": problem.model.set}).plot(ax)

    @classmethod
    def _of(
        cls, found: dict[str, tuple[Solution, NDArray[np.float64]]], models: dict[str, Any]
    ) -> WeightsDisplay:
        weights, support = {}, {}
        for name, (solution, y) in found.items():
            q = solution.weights
            if q is None or not np.any(q):
                raise CompositionError(
                    f"WeightsDisplay: {models[name]!r} is not made of samples, so that none has a weight; "
                    "take hulls, as ucm.models.nu_svm(0.3)"
                )
            weights[name], support[name] = {}, {}
            for sign in (1, -1):
                own = np.sort(q[y == sign])[::-1]
                weights[name][sign] = own * (own.size / own.sum()) if own.sum() > 0.0 else own
                support[name][sign] = int(np.count_nonzero(own > 1e-6 * q.max()))
        return cls(weights, support)

    @property
    def ax_(self) -> Any:
        """The axes, where there is one model."""
        return self.axes_[0]

    def plot(self, ax: Any = None) -> WeightsDisplay:
        """Draw again; `ax` as in `from_model`."""
        with canvas():
            one = len(self.weights) == 1
            size = (5.6, 4.2) if one else (3.9, 3.9)
            figure, found = axes_of(ax, 1, len(self.weights), size, "WeightsDisplay")
            for k, ((name, by_class), a) in enumerate(zip(self.weights.items(), found)):
                longest = max(v.size for v in by_class.values())
                top = max(float(v.max(initial=0.0)) for v in by_class.values())
                a.set(xlim=(-0.02 * longest, 1.02 * longest), ylim=(-0.04 * top, 1.12 * top))
                a.set(xlabel="samples of a class, heaviest first")
                if k == 0:
                    a.set_ylabel("weight / mean weight of its class")
                title = name or "the weights of the worst case"
                a.set_title(title)
            settle(figure)
            for (name, by_class), a in zip(self.weights.items(), found):
                self._one(a, name, by_class)
        self.axes_, self.figure_ = found, figure
        return self

    def _one(self, ax: Any, name: str, by_class: dict[int, NDArray[np.float64]]) -> None:
        colours, names, curves = palette(ax), Names(ax), {}
        ax.axhline(1.0, color=colours.soft, lw=1.0, ls=LINES[3], zorder=1)
        for k, (sign, q) in enumerate(by_class.items()):
            at = np.unique(np.linspace(0, q.size, min(q.size, MOST) + 1).astype(int))[:-1]
            ax.step(
                np.append(at, q.size),
                np.append(q[at], 0.0),
                where="post",
                color=colours.of(sign),
                ls=LINES[k],
                zorder=3,
            )
            curve = np.c_[
                np.repeat(np.append(at, q.size), 2)[1:], np.repeat(np.append(q[at], 0.0), 2)[:-1]
            ]
            curves[sign] = curve
            names.avoid(dense(curve, 300))
        low, high = ax.get_xlim()
        names.avoid(np.c_[np.linspace(low, high, 60), np.ones(60)], weight=1.0)
        for sign, curve in curves.items():
            count, all_ = self.support[name][sign], by_class[sign].size
            text = f"class {sign:+d}\n{count} of {all_} have weight"
            names.near(text, curve, colours.of(sign), size=11.5)
