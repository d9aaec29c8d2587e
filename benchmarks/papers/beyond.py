"""The library's own routes beside the methods of the papers, on the data of the papers: seconds and gaps.

Each row has the ratio of both times in one run, and the gap that each reached, by the library's certificate;
below the boundary the gap of RAPMINOS is its height above the proven optimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Parts, Row, in_turns, standardised
from benchmarks.papers import extended_nu_svm, nearest_points, psvm, sparse, unified
from ucm.compiler.compile import solve
from ucm.forms.solution import Solution
from ucm.language import models
from ucm.language.sets import ReducedHull
from ucm.language.statistics.samples import neg, pos
from ucm.solvers import DCA, PSMO, ClipMDM, Conic

__all__ = ["PARTS"]

PARTS = Parts()

Gap = Callable[[Solution, Solution], float]


def _proven(found: Solution, _: Solution) -> float:
    return abs(found.certificate.relative_gap)


def _row(name: str, what: str, works: Mapping[str, Callable[[], Solution]], gap: Gap = _proven) -> Row:
    """The method of the paper first, then the library's."""
    theirs, ours = in_turns(works, 2, clock=time.process_time).values()
    return {
        "set": name, "model": what, "times ours": theirs.least / ours.least,
        "gap, paper": gap(theirs.result, ours.result), "gap, ours": _proven(ours.result, ours.result),
        "status": ours.result.status, "within": theirs.least >= ours.least,
    }  # fmt: skip


@PARTS.each((*unified.SMALL, "a8a", "ijcnn1"), name="unified")
def _unified(name: str, X: Any, y: Any) -> Iterator[Row]:
    """The nu-SVM at the printed nu: APG as printed, and the automatic route to 1e-6."""
    fit = partial(solve, models.nu_svm(unified.PRINTED[name]["nu"]), X, y)
    as_printed = partial(fit, solver=unified.AS_PRINTED, tol=unified.TIGHT)
    yield _row(name, "nu-SVM", {"APG": as_printed, "automatic": fit})


@PARTS.each(extended_nu_svm.QUICK, extended_nu_svm.load, name="extended-nu-svm")
def _below(name: str, X: Any, y: Any) -> Iterator[Row]:
    """The extended nu-SVM with p = inf at nu_min / 1.01 on all samples: RAPMINOS from the barycentres, and a
    convex problem for each face, with a proof."""
    model = models.enu_svm(extended_nu_svm.least_nu(X, y) / extended_nu_svm.BELOW, np.inf)
    works = {way: partial(solve, model, X, y, solver=way) for way in ("rapminos", "faces")}
    yield _row(name, "p = inf", works, lambda found, least: found.objective / least.objective - 1.0)


@PARTS.each(nearest_points.PRINTED, nearest_points.load, name="nearest-points")
def _nearest(name: str, X: Any, y: Any, splits: Any) -> Iterator[Row]:
    """The nearest points of reduced hulls behind the RBF kernel of Table 1 on one split: clipped MDM by the
    paper's rule, and the automatic route to 1e-6."""
    (train, _), printed = splits[0], nearest_points.PRINTED[name]
    eta = max(printed["mu"], 1.0 / min(np.sum(y[train] > 0), np.sum(y[train] < 0)))
    U = ReducedHull(pos, eta=float(eta)) - ReducedHull(neg, eta=float(eta))
    fit = partial(solve, U, X[train], y[train], kernel="rbf", gamma=1.0 / printed["s2"])
    yield _row(name, "reduced hulls", {
        "clip-mdm": partial(fit, solver=ClipMDM(stop="paper"), tol=1e-9), "automatic": fit,
    })  # fmt: skip


@PARTS.each(sparse.UCI, standardised, name="sparse")
def _sparse(name: str, X: Any, y: Any) -> Iterator[Row]:
    """RLSVM0 and RLSVMC1 at lam = 1 on all samples: DCA by the paper's stop around a conic solver, as
    printed, and around the automatic one to a certified critical point."""
    for what in ("RLSVM0", "RLSVMC1"):
        model = sparse.MODELS[what](lam=1.0)
        fit = partial(solve, model, X, y)
        as_printed = partial(fit, solver=DCA(inner=Conic("clarabel"), stop="paper"))
        yield _row(name, what, {"conic": as_printed, "automatic": fit})


@PARTS.each(psvm.BINARY, standardised, name="psvm")
def _powers(name: str, X: Any, y: Any) -> Iterator[Row]:
    """The pSVM with p = 1.5 at the printed C_best behind the RBF kernel: pSMO with its random partner, and
    the automatic route, both to 1e-4."""
    train, _ = psvm.split_of(y, psvm.BINARY[name]["test"], 0)
    model = models.psvm(1.5, psvm.cost_of(name, 1.5))
    fit = partial(solve, model, X[train], y[train], kernel="rbf", gamma=1.0 / X.shape[1], tol=1e-4)
    yield _row(name, "p = 1.5", {"psmo": partial(fit, solver=PSMO()), "automatic": fit})
