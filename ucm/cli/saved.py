"""The JSON file of a linear two-class classifier, which `ucm fit --save` writes and `ucm predict` reads."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ucm.cli.output import write
from ucm.data.columns import places_of
from ucm.data.linear_map import Vec
from ucm.errors import DataError, brief

_FORMAT = {"ucm_fit": 1}


@dataclass(frozen=True)
class Saved:
    """A linear classifier `w'x + b > 0` with its declaration, labels and feature names."""

    model: Any  # as the object that `ucm.to_json` writes
    w: list[float]
    b: float
    labels: tuple[str, str]  # of classes -1 and +1
    zero_based: bool | None  # whether the indices of a LIBSVM file begin at 0; None of a CSV file
    names: list[str] | None  # of the features

    def write(self, path: str) -> Path:
        """Write the classifier to a JSON file that restores all numbers exactly, and return the path."""
        return write(path, json.dumps(_FORMAT | asdict(self), allow_nan=False) + "\n", "--save")

    @staticmethod
    def read(path: str) -> Saved:
        """Return the classifier of a JSON file; raise `DataError` unless every field has its type."""
        remedy = "name a file that ucm fit --save wrote"
        try:
            entries = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(entries, dict) or not entries.items() >= _FORMAT.items():
                raise ValueError(f"it has no entry {_FORMAT}")
            saved = Saved(**{name: x for name, x in entries.items() if name not in _FORMAT})
            saved._check()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None
        except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
            raise DataError(f"{path}: is no classifier of ucm fit ({error}); {remedy}") from None
        return saved

    def _check(self) -> None:
        """Raise `ValueError`, or for an integer without a float `OverflowError`, for an invalid field."""
        w, names = self.w, self.names
        for name, valid in {
            "model": isinstance(self.model, dict),
            "w": isinstance(w, list) and bool(w) and all(map(_is_number, w)),
            "b": _is_number(self.b),
            "labels": _are_texts(self.labels) and len(self.labels) == 2,
            "zero_based": self.zero_based is None or isinstance(self.zero_based, bool),
            "names": names is None or (_are_texts(names) and len(names) == len(set(names)) == len(w)),
        }.items():
            if not valid:
                raise ValueError(f"its {name} is {brief(getattr(self, name))}")

    def decision(self, X: Any, names: list[str] | None = None) -> Vec:
        """Return `w'x + b` for the rows of X, with columns matched by name if classifier and X have names."""
        w = np.array(self.w)
        if self.names is not None and names is not None:
            X = X[:, places_of(self.names, names)]
        if sparse.issparse(X):
            n = min(w.size, X.shape[1])
            X, w = X[:, :n], w[:n]
        if X.shape[1] != w.size:
            raise DataError(
                f"{X.shape[1]} features, where the classifier was fitted on {w.size}; give the same columns"
            )
        return np.asarray(X @ w) + self.b


def _is_number(x: object) -> bool:
    return type(x) in (int, float) and math.isfinite(x)  # type: ignore[arg-type]


def _are_texts(items: Any) -> bool:
    """True for a list of strings that UTF-8 encodes: JSON may hold a lone surrogate."""
    texts = isinstance(items, list) and all(isinstance(s, str) for s in items)
    return texts and not any("\ud800" <= c <= "\udfff" for s in items for c in s)
