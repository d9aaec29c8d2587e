"""The parameters of an estimator of a declared model: those of the model too, as `model__nu`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from ucm.errors import ParameterError
from ucm.language import models
from ucm.language.node import Node
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model

__all__ = ["OfModel", "fitted_anew"]

_NESTED = "model__"


class OfModel(BaseEstimator):
    """An estimator with the parameters `model` and `kernel`.

    Every `Param` of the model is a parameter of the estimator too: `Param("nu", 0.3)` can be set
    and searched as `model__nu`. A declaration is immutable; `clone` shares it, and `set_params`
    puts another one in its place.
    """

    model: Any
    kernel: Any

    @property
    def _declared(self) -> RobustMargin | Objective:
        """What is fitted: `model`, or where there is none a psvm."""
        model = models.psvm(2.0, 0.1) if self.model is None else self.model
        return model if isinstance(model, Objective) else as_model(model, type(self).__name__)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, `model__<name>` for every `Param` of the model."""
        params = super().get_params(deep=deep)
        if deep and isinstance(self.model, Node):
            params |= {_NESTED + name: x for name, x in self.model.params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `model__<name>` replaces the model by one with that value.

        Raises
        ------
        ValueError
            The estimator, or its model, has no parameter of that name.
        """
        own = {name: x for name, x in params.items() if not name.startswith(_NESTED)}
        nested = {n.removeprefix(_NESTED): x for n, x in params.items() if n not in own}
        super().set_params(**own)  # first: it may put the model there whose values follow
        if not nested:
            return self
        if not isinstance(self.model, Node):
            raise ParameterError(
                f"set_params: {_NESTED}{next(iter(nested))} is a parameter of the model, and the "
                f"model is {self.model!r}; give one first, such as ucm.models.psvm(2.0, 0.1)"
            )
        self.model = self.model.with_params(**nested)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


@contextmanager
def fitted_anew(estimator: BaseEstimator) -> Iterator[None]:
    """A fit, which finds nothing of the one before; where it raises, the estimator is as it was."""
    former = dict(vars(estimator))
    try:
        for name in [name for name in former if name.endswith("_")]:
            delattr(estimator, name)
        yield
    except BaseException:  # Ctrl-C too
        vars(estimator).clear()
        vars(estimator).update(former)
        raise
