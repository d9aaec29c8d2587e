"""Certificates over samples that are read block by block, from the sums of a solver's last pass."""

from __future__ import annotations

import numpy as np

from ucm.evidence.certificate import fault, interval
from ucm.evidence.objective import of_objective
from ucm.forms.out_of_core import HullProof, LossProof, RowHulls, RowLosses
from ucm.forms.solution import Certificate
from ucm.language.simplex_projection import round_violation

_PASS = fault("the pass over the rows")
"""The probable cause of bounds that contradict each other."""


def hulls_proven(form: RowHulls, proof: HullProof) -> Certificate:
    """Return the certificate of a direction and of a point of two hulls."""
    primal, norm = form.bounds(proof)
    if np.inf in (primal, norm):
        return Certificate(primal, -norm, np.inf, np.inf, np.nan, "none")
    return interval(primal, norm, round_violation(proof.violation), form.data.scale, wrong=_PASS)


def losses_proven(form: RowLosses, proof: LossProof) -> Certificate:
    """Return the certificate of a plane and of the slopes of the losses."""
    dual, missed = form.lower_bound(proof)
    kind = "global" if form.convex else "local"
    return of_objective(form.value(proof), dual, missed, form.at_rest, kind=kind, wrong=_PASS)
