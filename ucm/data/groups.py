"""The group of every sample: a label beside that of its class."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.validation import read_groups
from ucm.errors import DataError

__all__ = ["Groups", "groups_of", "members"]

_SHOWN = 6  # labels that a message lists


class Groups:
    """The groups of samples.

    Attributes
    ----------
    codes : for every label its number
    given : (m,) the number of the label of every sample that was given
    numbers : those of the samples that are bound
    """

    def __init__(self, labels: Sequence[Any]) -> None:
        self.codes = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        self.given = np.fromiter(map(self.codes.__getitem__, labels), np.intp, len(labels))
        self.given.flags.writeable = False
        self.numbers = self.given

    def of(self, rows: NDArray[np.intp]) -> Groups:
        """The groups of these samples only."""
        few = copy.copy(self)
        few.numbers = self.numbers[rows]
        return few

    @property
    def labels(self) -> list[Any]:
        """The label of every sample that was given."""
        names = list(self.codes)
        return [names[k] for k in self.given]


def members(
    groups: Groups | None, kind: str, label: Any, among: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The samples of a group among those of a kind, `pos`, `neg` or `signed`.

    Raises
    ------
    DataError
        There are no groups, no sample has this label, or none of those.
    """
    name = f"{kind}.group({label!r})"
    if groups is None:
        raise DataError(
            f"{name}: expected the group of every sample, got none; give them, as compile(..., "
            "subgroup=labels) or Classifier.fit(X, y, subgroup=labels), which scikit-learn passes on "
            "after sklearn.set_config(enable_metadata_routing=True) and set_fit_request(subgroup=True)"
        )
    code = groups.codes.get(label)
    if code is None or not (groups.numbers == code).any():
        shown = ", ".join(map(repr, list(groups.codes)[:_SHOWN]))
        more = ", ..." if len(groups.codes) > _SHOWN else ""
        raise DataError(
            f"{name}: expected one of the groups {shown}{more}, got {label!r}, which no sample "
            "has; take one of them"
        )
    rows = among[groups.numbers[among] == code]
    if not rows.size:
        of = {"pos": "class +1", "neg": "class -1"}.get(kind, "both classes")
        count = np.count_nonzero(groups.numbers == code)
        raise DataError(
            f"{name}: expected samples of {of} in the group, got none (all {count} of the group are of "
            "the other class); leave the group out, or add samples"
        )
    return rows


def groups_of(subgroup: Any, m: int) -> Groups:
    """The groups of m samples; raises as `ucm.data.validation.read_groups`."""
    return Groups(read_groups(subgroup, m).tolist())
