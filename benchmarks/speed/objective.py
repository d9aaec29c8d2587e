"""The problems of the solvers, and one judge of all answers: the certificate of the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.speed.datasets import load
from ucm.compiler.compile import compile, solve
from ucm.compiler.plan import Plan
from ucm.language import models
from ucm.language.losses import Logistic, SquaredHinge
from ucm.language.penalties import L1, L2

__all__ = ["MODELS", "Problem"]

MODELS: dict[str, Any] = {
    "nu-SVM": models.nu_svm,
    "SVM": lambda C: models.psvm(1.0, C),
    "logistic + l2": lambda lam: Logistic() + lam * L2(),
    "logistic + l1": lambda lam: Logistic() + lam * L1(),
    "squared hinge + l2": lambda lam: SquaredHinge() + lam * L2(),
    "squared hinge + l1": lambda lam: SquaredHinge() + lam * L1(),
}


@dataclass(frozen=True)
class Problem:
    """A model on a data set.

    Attributes
    ----------
    set, m : the name of the set, and the number of samples that are drawn from it; 0 for all
    model, size : the name of the model, and nu, C or lam
    gamma : of an RBF kernel; None without a kernel
    """

    set: str
    model: str
    size: float
    gamma: float | None = None
    m: int = 0

    @cached_property
    def data(self) -> tuple[Any, Any]:
        """The samples and their labels."""
        return load(self.set, self.m)

    @cached_property
    def plan(self) -> Plan:
        return compile(MODELS[self.model](self.size), *self.data, **self._kernel)

    @property
    def _kernel(self) -> dict[str, Any]:
        return {} if self.gamma is None else {"kernel": "rbf", "gamma": self.gamma}

    def solve(self, **options: Any) -> Any:
        """Compile and solve the problem by `ucm.solve`."""
        return solve(MODELS[self.model](self.size), *self.data, **self._kernel, **options)

    def gap(self, answer: dict[str, Any]) -> float:
        """Return the relative gap of an answer, whose entries are arguments of `Plan.certify`.

        An answer without a dual point is compared with the dual point of a solution to 1e-9.
        """
        if "weights" not in answer:
            answer = {**answer, "weights": self.plan.solve(tol=1e-9).weights}
        return float(np.maximum(self.plan.certify(**answer).relative_gap, 0.0))
