"""Named hyperparameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ucm.errors import CompositionError, brief

__all__ = ["Param", "Scalar", "as_number", "number_source", "value"]


@dataclass(frozen=True)
class Param:
    """A named hyperparameter with its present value.

    Parameters
    ----------
    name : str
        A Python identifier; equal names within one model must carry equal values.
    value : float
        The present value; `model.with_params(name=...)` returns a model with another one.

    Raises
    ------
    CompositionError
        The name is no identifier, or the value no real number.

    Examples
    --------
    >>> import ucm
    >>> nu = ucm.Param("nu", 0.3)
    >>> ucm.ReducedHull(ucm.pos, nu=nu).params()
    {'nu': 0.3}
    """

    name: str
    value: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise CompositionError(
                f"Param: the name must be a Python identifier, got {brief(self.name)}; "
                'write for example Param("nu", 0.3)'
            )
        object.__setattr__(self, "value", as_number(self.value, f"Param({self.name!r})"))

    def __repr__(self) -> str:
        return f"Param({self.name!r}, {number_source(self.value)})"


Scalar = float | Param


def value(scalar: Scalar) -> float:
    """The number behind a constant or a `Param`."""
    return scalar.value if isinstance(scalar, Param) else scalar


def as_number(x: Any, where: str) -> float:
    """`x` as a float; refuses what is no real number."""
    if type(x) is float and not math.isnan(x):  # nearly always
        return x
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x.item()
    try:
        number = math.nan if isinstance(x, bool) or not isinstance(x, Real) else float(x)
    except OverflowError:
        raise CompositionError(
            f"{where}: expected a number below 1e308, got a longer one"
        ) from None
    if math.isnan(number):
        raise CompositionError(f"{where}: expected a real number or a Param, got {brief(x)}")
    return number


def number_source(x: float) -> str:
    """The shortest text that reads back as x; whole numbers without a point."""
    short = f"{x:.12g}"
    return short if float(short) == x else repr(x)
