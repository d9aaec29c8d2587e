"""The JSON file of a linear two-class classifier, which `ucm fit --save` writes and `ucm predict` reads."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.columns import places_of
from ucm.data.linear_map import Vec
from ucm.errors import DataError
from ucm.language.node import Node
from ucm.language.serialize import from_json, to_json

_FORMAT = 1


@dataclass(frozen=True)
class Saved:
    """A classifier `w'x + b > 0` with its declaration.

    Attributes
    ----------
    model : the declaration
    w, b : normal and bias
    labels : of classes -1 and +1
    zero_based : whether the indices of a LIBSVM file begin at 0; None of a CSV file
    names : of the features, or None
    """

    model: Node
    w: Vec
    b: float
    labels: list[str]
    zero_based: bool | None
    names: list[str] | None

    def write(self, path: str | Path) -> Path:
        """Write the file; the numbers are read back unchanged."""
        entries = {f.name: getattr(self, f.name) for f in fields(self)}
        entries |= {"model": json.loads(to_json(self.model)), "w": self.w.tolist()}
        path = Path(path)
        try:
            path.write_text(json.dumps({"ucm_fit": _FORMAT, **entries}, allow_nan=False) + "\n")
        except (OSError, ValueError) as error:  # the path is no file name
            why = getattr(error, "strerror", error)
            raise DataError(f"{str(path)!r}: cannot be written ({why}); name another file") from None
        return path

    @staticmethod
    def read(path: str | Path) -> Saved:
        """Return the classifier of a file.

        Raises
        ------
        DataError
            The file cannot be read, or `ucm fit --save` did not write it.
        """
        path, wrong = Path(path), "is no classifier that ucm fit --save wrote"
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(tree, dict) or tree.pop("ucm_fit", None) != _FORMAT:
                raise ValueError("no file of this version")
            tree["model"] = from_json(json.dumps(tree["model"]))
            tree["w"], tree["b"] = np.array(tree["w"], dtype=float), float(tree["b"])
            saved = Saved(**tree)
            saved._check()
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror}); name a file that ucm fit --save wrote"
            ) from None
        except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
            raise DataError(f"{path}: {wrong} ({error})") from None
        return saved

    def _check(self) -> None:
        """Raise `ValueError` if labels, names or normal are not those of a classifier."""
        if not isinstance(self.labels, list) or [type(x) for x in self.labels] != [str, str]:
            raise ValueError("its labels are no list of two strings")
        names = self.names
        if names is not None and (
            not all(isinstance(x, str) for x in names) or len(set(names)) != self.w.size
        ):
            raise ValueError("its names do not fit its normal")
        if self.w.ndim != 1 or not np.isfinite(self.w).all():
            raise ValueError("its normal is no vector of finite numbers")
        if not math.isfinite(self.b):
            raise ValueError("its bias is no finite number")

    def decision(self, X: Any, names: list[str] | None = None) -> Vec:
        """Return `w'x + b` of the rows of a table, with columns matched by name if both have names.

        In a sparse table missing features are 0, and further features have no weight.
        """
        if self.names is not None and names is not None:
            X = X[:, places_of(self.names, names)]
        w = self.w
        if sparse.issparse(X):
            shared = min(w.size, X.shape[1])
            return np.asarray(X[:, :shared] @ w[:shared]) + self.b
        if X.shape[1] != w.size:
            raise DataError(
                f"{X.shape[1]} features, where the classifier was fitted on {self.w.size}; give the "
                "same columns"
            )
        return X @ w + self.b
