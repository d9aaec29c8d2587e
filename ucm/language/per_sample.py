"""Quantities that are given for each sample, such as a radius or an offset of the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, DataError, ParameterError, brief
from ucm.language.contracts import UncertaintySet
from ucm.language.node import Arithmetic, Node, Notation, RotationInvariant, in_parentheses, restricted
from ucm.language.parameter import as_factor

_ARGUMENTS = ("self", "X", "y", "sample_weight", "subgroup", "groups", "out")  # of fit and predict


class PerSample(Arithmetic, RotationInvariant):
    """A quantity with a value for each sample, which comes with the data; written `per_sample(name)`."""

    name: str = restricted(
        lambda name: str(name).isidentifier() and name not in _ARGUMENTS,
        "name is a Python identifier, and no argument of fit or predict",
        "write per_sample('radius')",
    )

    def combine(self, symbol: str, a: object, b: object) -> Any:
        match symbol, b if a is self else a:
            case "*", UncertaintySet() as U:
                return PerSampleMultiple(self, U)
            case "@", UncertaintySet() if a is self:
                return NotImplemented  # the set says which of them have images by sample
        raise CompositionError(
            f"{brief(a)} {symbol} {brief(b)}: a quantity of each sample multiplies a set of perturbations or "
            "is the offset of the scores; write Robust(Hinge(), per_sample('radius') * Ball(0, 1)), or "
            "(loss + penalty).with_offset(per_sample('offset'))"
        )

    def values(self, data: Data) -> Vec:
        """Return the values of the bound samples, (m,); refuse vectors and matrices of each."""
        v = data.per_sample[self.name]
        if v.ndim != 1:
            raise DataError(
                f"{self!r}: expected one number for each sample, got the shape {v.shape}; a matrix of each "
                f"is for sets, as per_sample({self.name!r}) @ Ball(0, 1)"
            )
        return v

    def __repr__(self) -> str:
        return f"per_sample({self.name!r})"

    def formula(self, notation: Notation) -> str:
        return notation.sub(notation.symbol(self.name), "i")


def per_sample(name: str) -> PerSample:
    """Return the symbol of a quantity with one value for each sample, such as a radius or an offset.

    The values are no part of a declaration: they come with the samples, as `compile(..., per_sample={name:
    values})` or `Classifier.fit(X, y, name=values)`, and are divided among classes and folds like these.

    Parameters
    ----------
    name : str
        A Python identifier.

    Examples
    --------
    >>> import ucm
    >>> loss = ucm.Robust(ucm.Hinge(), within=ucm.per_sample("radius") * ucm.Ball(0, 1))
    >>> X, y = [[2.0], [1.0], [-1.0]], [1, 1, -1]
    >>> sol = ucm.solve(loss + 0.1 * ucm.L2(), X, y, per_sample={"radius": [1.0, 0.5, 0.0]})
    >>> round(sol.objective, 4)
    0.1778
    """
    return PerSample(name)


def quantities_of(model: Node) -> set[str]:
    """Return the names of the quantities of each sample in a declaration."""
    return {node.name for node in model.nodes_of_type(PerSample)}


def check_quantities(model: Node, per_sample: Mapping[str, object]) -> None:
    """Raise an error unless there are values for the quantities of a model, and no others."""
    names, given = quantities_of(model), set(per_sample)
    missing, unused = sorted(names - given), sorted(given - names)
    if missing:
        raise DataError(
            f"per_sample({missing[0]!r}): expected a value for each sample, got "
            f"{', '.join(map(repr, unused)) or 'none'}; give them, as "
            f"compile(..., per_sample={{{missing[0]!r}: values}}) or fit(X, y, {missing[0]}=values)"
        )
    if unused:
        raise ParameterError(
            f"per_sample, or an argument of fit: expected {', '.join(sorted(names)) or 'no quantities'}, as "
            f"the model declares, got {unused[0]!r} too; correct the name, leave it out, or write "
            f"per_sample({unused[0]!r}) in the model"
        )


class PerSampleMultiple(Arithmetic, RotationInvariant):
    """The sets `{r_i d : d in U}` of the samples, r_i the values of a quantity."""

    factor: PerSample
    set: UncertaintySet

    def combine(self, symbol: str, a: object, b: object) -> PerSampleMultiple:
        c = as_factor(a if b is self else b)
        if symbol == "*" and c is not None:
            return PerSampleMultiple(self.factor, c * self.set)
        raise CompositionError(
            f"{brief(a)} {symbol} {brief(b)}: sets that differ by sample are multiplied by numbers only; "
            "write per_sample('radius') * (U + V)"
        )

    def __repr__(self) -> str:
        return f"{self.factor!r} * {in_parentheses(repr(self.set))}"

    def formula(self, notation: Notation) -> str:
        return f"{self.factor.formula(notation)} {in_parentheses(self.set.formula(notation))}"
