"""Unions of reduced hulls by the operands that have a share of the nearest point: the others are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.data.maps import HStack, stacked_parts
from ucm.forms.distance import MinNorm
from ucm.language.contracts import Block
from ucm.language.domains.convex_combination import SmoothCombination

__all__ = ["Operands"]

_WORTH = 0.8  # of the parameters: with fewer it is worth going over


@dataclass(frozen=True)
class Operands:
    """A form over some operands of its unions, and the way back.

    Attributes
    ----------
    form : the smaller one
    places : of every block where its parameters stand in that of the whole; None for all
    sizes : of the blocks of the whole
    """

    form: MinNorm
    places: tuple[NDArray[np.intp] | None, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, form: MinNorm, q: Sequence[Vec]) -> Operands | None:
        """Select the operands of positive weight at q; None if nearly all parameters stay."""
        if not any(isinstance(b.domain, SmoothCombination) for b in form.blocks):
            return None
        found = [_narrowed(b, v) for b, v in zip(form.blocks, q, strict=True)]
        sizes = tuple(b.map.shape[1] for b in form.blocks)
        left = sum(d if p is None else p.size for d, (_, p) in zip(sizes, found, strict=True))
        if left > _WORTH * sum(sizes):
            return None
        few = replace(form, blocks=tuple(b for b, _ in found))
        return cls(few, tuple(p for _, p in found), sizes)

    def gathered(self, q: Sequence[Vec]) -> list[Vec]:
        """The parameters of the smaller form."""
        return [v if p is None else v[p] for p, v in zip(self.places, q, strict=True)]

    def spread(self, q: Sequence[Vec]) -> list[Vec]:
        """Return the blocks of the whole form, 0 for operands that are left out."""
        whole = []
        for p, d, v in zip(self.places, self.sizes, q, strict=True):
            whole.append(v if p is None else np.zeros(d))
            if p is not None:
                whole[-1][p] = v
        return whole


def _narrowed(b: Block, q: Vec) -> tuple[Block, NDArray[np.intp] | None]:
    """A block over the operands with a share, and where they stand; all of it where none is without."""
    D, maps = b.domain, stacked_parts(b.map)
    if not isinstance(D, SmoothCombination) or any(D.units):
        return b, None
    kept = [g for g, t in enumerate(D.shares(q)) if t > 0.0]
    if len(kept) == len(D.units):
        return b, None
    own = [k for k, part in enumerate(D.parts) if part.operand in kept]
    places = np.concatenate([np.arange(q.size)[D.parts[k].where] for k in own])
    return Block(HStack(*(maps[k] for k in own)), D.only(kept)), places
