"""`WeightsDisplay`: the worst-case weights of the samples, for one or several models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ucm.errors import CompositionError, ParameterError, brief
from ucm.forms.solution import Solution
from ucm.plot.problem import MAX_SAMPLES, Problem, SampleOptions, problem_of, problem_of_estimator
from ucm.plot.style import LINES, Display, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False)
class WeightsDisplay(Display):
    """A plot of the worst-case weights of the samples of each class, in descending order.

    Weights are multiples of the mean weight of the class. The number of samples with a positive weight is
    where a curve meets 0.

    Attributes
    ----------
    weights : {model: {+1 | -1: (m_o,) multiples, in descending order}}
    support : {model: {+1 | -1: number of samples with a positive weight}}
    class_names : {model: {+1 | -1: text}} of the legend
    axes_, figure_ : of the last `plot`
    """

    weights: dict[str, dict[int, NDArray[np.float64]]]
    support: dict[str, dict[int, int]]
    class_names: dict[str, dict[int, str]]

    @classmethod
    def from_model(
        cls, model: object, X: object, y: object, *, solution: Solution | None = None, ax: object = None,
        **options: Unpack[SampleOptions],
    ) -> WeightsDisplay:  # fmt: skip
        """Plot the worst-case sample weights of one or several models; solve if no solution is given.

        Parameters
        ----------
        model : uncertainty set or RobustMargin of samples, or {name: model}
        X, y : as in `ucm.compile`
        solution : of one model
        ax : None for a new figure, or one axes for each model
        options : class_weight, sample_weight, subgroup and pos_label, as in `ucm.compile`

        Raises
        ------
        CompositionError
            The set has no samples, as an ellipsoid of means and covariances.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.WeightsDisplay.from_model(ucm.models.nu_svm(0.3), X, y)
        >>> round(float(shown.weights[""][1].mean()), 9)
        1.0
        """
        models = model if isinstance(model, Mapping) else {"": model}
        if not models or (isinstance(model, Mapping) and solution is not None):
            raise ParameterError(
                "WeightsDisplay: expected one model with its solution, or {name: model} without, got "
                f"{brief(model)}; leave the solution out"
            )
        who = "WeightsDisplay"
        return cls._of_problems(
            {k: problem_of(U, X, y, solution, who, **options) for k, U in models.items()}
        ).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: object, y: object, *, ax: object = None) -> WeightsDisplay:
        """Plot the worst-case weights for a fitted `ucm.Classifier` and its training samples X and y.

        The classifier may be the last step of a pipeline, or the best estimator of a search.
        """
        return cls._of_problems({"": problem_of_estimator(estimator, X, y, "WeightsDisplay")}).plot(ax)

    @classmethod
    def _of_problems(cls, problems: dict[str, Problem]) -> WeightsDisplay:
        weights, support = {}, {}
        for name, problem in problems.items():
            q = problem.solution.weights
            if q is None or not np.any(q):
                raise CompositionError(
                    f"WeightsDisplay: {problem.model.set!r} has no samples with weights; take hulls, as "
                    "ucm.models.nu_svm(0.3)"
                )
            weights[name], support[name] = {}, {}
            for sign in (1, -1):
                members = np.sort(q[problem.data.y == sign])[::-1]
                weights[name][sign] = members / (members.mean() or 1.0)
                support[name][sign] = int(np.count_nonzero(members > 1e-6 * q.max()))
        return cls(weights, support, {name: one.class_names for name, one in problems.items()})

    def plot(self, ax: object = None) -> WeightsDisplay:
        """Draw the sorted weights, one axes for each model.

        `ax` is as in `from_model`.
        """
        count = len(self.weights)
        with self._axes(ax, 1, count, (5.6, 4.2) if count == 1 else (3.9, 3.9)) as axes:
            for (name, by_class), a in zip(self.weights.items(), axes):
                width = max(q.size for q in by_class.values())
                top = max(float(q.max(initial=0.0)) for q in by_class.values())
                a.set(xlim=(-0.02 * width, 1.02 * width), ylim=(-0.04 * top, 1.12 * top))
                a.set(xlabel="samples of a class, heaviest first")
                a.set_title(name or "worst-case weights")
                self._draw(a, name)
            axes[0].set_ylabel("weight / mean weight of its class")
        return self

    def _draw(self, ax: Axes, name: str) -> None:
        ax.axhline(1.0, color=palette(ax).soft, lw=1.0, ls=LINES[3], zorder=1)
        for k, (sign, q) in enumerate(self.weights[name].items()):
            places = np.unique(np.linspace(0, q.size, min(q.size, MAX_SAMPLES) + 1).astype(int))
            steps, values = np.repeat(places, 2)[1:], np.repeat(np.append(q, 0.0)[places], 2)[:-1]
            text = f"{self.class_names[name][sign]}: {self.support[name][sign]} of {q.size} have weight"
            color = palette(ax).class_color(sign)
            ax.plot(steps, values, color=color, ls=LINES[k], zorder=3, label=text)
        ax.legend(loc="best")
