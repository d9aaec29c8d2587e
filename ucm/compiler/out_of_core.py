"""Choice of the statistics and of the lowering of a model over out-of-core samples."""

from __future__ import annotations

import numpy as np

from ucm.compiler.column_generation import ColumnGenerationLowering, of_vertices
from ucm.compiler.lowering import Lowering
from ucm.compiler.out_of_core_lowering import (
    OutOfCoreHullsLowering,
    OutOfCoreLossesLowering,
    groups_in,
    loss_factors,
    of_hulls,
    takes,
)
from ucm.compiler.route import choose
from ucm.data.bound_data import Data
from ucm.data.first_pass import RowData, first_pass, of_moments, refuse_gathering
from ucm.data.source import RowSource
from ucm.data.weights import ClassWeight, Factors, members
from ucm.forms.solver import Solver
from ucm.language.node import Node
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, by_lam
from ucm.language.statistics.samples import Covariance, Mean, SampleNode, Samples, kinds_of

_LONG = 1000  # least number of samples per feature, of samples in memory that are read block by block


def in_blocks(model: RobustMargin | Objective, data: Data) -> bool:
    """True if a model is two hulls of many dense in-memory samples, solved faster by blocks of rows."""
    return (
        data.source is None
        and data.m >= _LONG * data.n
        and isinstance(data.table, np.ndarray)
        and isinstance(model, RobustMargin)
        and model.norm == 2.0
        and data.weighing.samples is None
        and not model.relative_names()
        and of_hulls(model.set)
        and not groups_in(model)
        and kinds_of(model) in ({"pos", "neg"}, {"signed"})
    )


def of_statistics(U: Node) -> bool:
    """True if the samples of a set enter only through means and covariances."""
    if isinstance(U, Mean | Covariance):
        return isinstance(U.samples, Samples)
    return not isinstance(U, SampleNode) and all(map(of_statistics, U.children()))


def statistics_of_rows(model: RobustMargin | Objective, rows: RowSource, class_weight: ClassWeight) -> Data:
    """Return the statistics of one pass over rows: means and covariances, or counts and a sample."""
    refused = isinstance(model, Objective) and (bool(model.nodes_of_type(Covariance)) or not takes(model))
    if refused or model.relative_names() or by_lam(model):
        refuse_gathering(rows, f"{model!r}")
    factors = _factors(model, rows)
    if isinstance(model, RobustMargin) and (of_statistics(model.set) or _has_hulls_and_moments(model)):
        return of_moments(rows, class_weight, factors)
    return first_pass(rows, factors, class_weight)


def _factors(model: RobustMargin | Objective, rows: RowSource) -> Factors | None:
    """Return the row factors of a model; None for rows without sample weights and groups.

    Raise `DataError` for groups that the rows do not have, or in a model without a route over rows.
    """
    groups = groups_in(model)
    if groups and "group" not in rows.tags:
        kind, label = groups[0]
        members(None, kind, label, np.zeros(0, dtype=np.intp))
    if not rows.tags:
        return None
    if isinstance(model, Objective):
        return loss_factors(model.loss.split()[0], groups) if groups else Factors()
    if of_statistics(model.set):
        return Factors(model_groups=groups)
    every: list[object] = [None]
    sides = [[label for k, label in groups if k in (kind, "signed")] for kind in ("pos", "neg")]
    if any(len(labels) > 1 for labels in sides):
        refuse_gathering(rows, f"{model!r}", "hulls of one group of each class")
    plus, minus = (dict.fromkeys(labels or every, 1.0) for labels in sides)
    return Factors(plus, minus, groups)


def _has_hulls_and_moments(model: RobustMargin) -> bool:
    """True if a set combines whole hulls with means or covariances."""
    return of_vertices(model.set) and not of_statistics(model.set) and not of_hulls(model.set)


def lower_rows(model: RobustMargin | Objective, data: Data, solver: str | Solver) -> Lowering | None:
    """Return the out-of-core lowering of a model, from the statistics of `statistics_of_rows`.

    None if the means and covariances of all rows are all that it needs.
    """
    lowering: Lowering
    if isinstance(model, Objective):
        lowering = OutOfCoreLossesLowering(model, data, solver)  # type: ignore[arg-type]
    elif isinstance(data, RowData):
        lowering = OutOfCoreHullsLowering(model, data, solver)
    else:
        generated = _has_hulls_and_moments(model)
        return ColumnGenerationLowering(model, data, solver) if generated else None
    if solver == "auto" and choose(lowering.form, solver) is None:
        refuse_gathering(lowering.rows.source, f"{model!r} with {data.n} features")
    return lowering
