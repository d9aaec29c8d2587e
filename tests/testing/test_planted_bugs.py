"""`check_solver` names side and cause of planted errors, in an own Frank-Wolfe, an own ADMM, and others."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ucm
from ucm import solvers
from ucm.errors import ConvergenceWarning
from ucm.forms.distance import MinNorm
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import Monitor
from ucm.forms.objective import BestSubset, Composite, DifferenceOfConvex, GeneralComposite, LinearTerm
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.language.domains import Simplex
from ucm.testing import check_solver


class FrankWolfe(Solver[MinNorm]):
    """Steps to the point of an oracle, with exact line search; `bug` names an error."""

    name = "frank-wolfe"

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def refuse(self, form: MinNorm) -> str | None:
        hulls = all(b.groups is not None for b in form.blocks)
        if form.norm != 2.0 or form.couplings or not hulls or form.n == 1:
            return "it takes hulls"
        return None if (self.bug == "caps") != _whole(form) else "it takes other caps"

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        bug, q = self.bug, form.begin(start)
        if bug == "infeasible":
            return Answer(status="infeasible", message="0 is far")
        for k in range(1, monitor.limit(500 if bug else 3000) + 1):
            x = form.matvec(q)
            norm = float(np.linalg.norm(x))
            pull = form.rmatvec(-x if bug == "uphill" else x)
            if bug == "caps":
                ends = [Simplex().support(-g)[1] for g in pull]
            else:
                ends = [end for _, end in form.supports([-g for g in pull])]
            if bug == "sign of block":
                ends[1] = form.supports(pull)[1][1]
            if bug == "one block":
                ends[1] = q[1]
            d = form.matvec(ends) - form.matvec(q)
            gap = -float(x @ d)
            if monitor.report(k, -norm, gap / max(norm**2, 1e-300)):
                return Answer(q, status="interrupted")
            enough = 1.0 if bug == "early" else 0.5 * monitor.tol
            if abs(gap) <= enough * norm**2 or norm <= monitor.tol:
                break
            t = 1.0 if bug == "step" else np.clip(gap / max(float(d @ d), 1e-300), 0.0, 1.0)
            t = 0.1 if bug == "uphill" else t
            q = [v + t * (end - v) for v, end in zip(q, ends, strict=True)]
        else:
            return Answer(q, status="max_iter", message="raise max_iter")
        if bug == "mass":
            return Answer([2.0 * v for v in q])
        if bug == "exchanged":
            return Answer(q[::-1])
        return Answer(q, -x if bug == "behind" else x)


def _whole(form: MinNorm) -> bool:
    return all(b.domain.support(np.eye(b.map.shape[1])[0])[0] > 0.99 for b in form.blocks)


class ADMM(Solver[Composite]):
    """The alternating direction method for `sum c l(r) + R(v)`, `r = o - y (Xw + b)`, `v = w`."""

    name = "admm"

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def refuse(self, form: Composite) -> str | None:
        if len(form.losses) != 1 or len(form.penalties) != 1 or form.n > 3:
            return "it takes one loss and one penalty"
        weighted = form.weights[0] is not None
        return "it takes weights" if self.bug == "weights" and not weighted else None

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        bug, rho, (loss,), (R,) = self.bug, 2.0, form.losses, form.penalties
        c = np.ones(form.m) if form.weights[0] is None or bug == "weights" else form.weights[0]
        c = 2.0 * c if bug == "loss" else c
        Z = form.y[:, None] * np.column_stack([form.X, np.ones(form.m)])
        ridge = np.diag([1.0] * form.n + [0.0])
        if bug == "bias":
            Z[:, -1], ridge[-1, -1] = 0.0, 1.0
        inverse = np.linalg.inv(Z.T @ Z + ridge)
        answer = Answer()
        r, U, v, V = np.zeros(form.m), np.zeros(form.m), np.zeros(form.n), np.zeros(form.n)
        for k in range(1, monitor.limit(200 if bug == "frozen" else 20_000) + 1):
            plane = inverse @ (Z.T @ (loss.offset - r + U) + np.append(v - V, 0.0))
            w, b = plane[:-1], float(plane[-1])
            shifted = loss.offset - Z @ plane + U - form.linear.margin / rho
            slopes = c * loss.conjugate_prox(rho / c * shifted, rho / c)
            r = shifted - slopes / rho
            U = 0.0 * U if bug == "frozen" else loss.offset - Z @ plane + U - r
            step = {"prox": 1.0, "scale": 3.0 / rho}.get(bug, 1.0 / rho)
            v = R.prox(w + V + form.linear.normal / rho, step)
            V = 0.0 * V if bug == "frozen" else V + w - v
            answer = Answer(w=v, b=b, slopes=slopes)
            value, gap = form.duality_gap(answer)
            if monitor.report(k, value, gap / abs(value)):
                return replace(answer, status="interrupted")
            still = np.abs(Z @ plane + r - loss.offset).max() + np.abs(w - v).max() <= 1e-10 and k > 20
            if gap <= 0.5 * monitor.tol * abs(value) or (still and bug):
                break
        else:
            return replace(answer, status="max_iter", message="raise max_iter")
        return spoiled(bug, answer, form)


def spoiled(bug: str, answer: Answer, form: Any) -> Answer:
    """The answer with an error of its last lines."""
    w, b, s = np.array(answer.w), answer.plane[1], np.array(answer.slopes)
    match bug:
        case "sign of dual":
            return replace(answer, slopes=-s)
        case "scale of dual":
            return replace(answer, slopes=0.5 * s)
        case "labels in dual":
            return replace(answer, slopes=form.y * s)
        case "sign of w":
            return replace(answer, w=-w, b=-b)
        case "scale of w":
            return replace(answer, w=0.5 * w)
        case "b of another problem":
            return replace(answer, b=b + 1.0)
    return answer


class Spoiled(Solver[Any]):
    """A solver of the library, with an error after it."""

    name = "spoiled"

    def __init__(self, form: type, solver: Solver, change: Any, before: Any = None) -> None:
        self.solver, self.change, self.before = solver, change, before or (lambda form: form)
        self.takes = (form,)  # type: ignore[misc]

    def refuse(self, form: Any) -> str | None:
        return self.solver.refuse(form)

    def solve(self, form: Any, monitor: Monitor, start: Answer | None = None) -> Answer:
        return self.change(self.solver.solve(self.before(form), monitor, start), form)


def kept(answer: Answer, form: Any) -> Answer:
    return answer


def of_tilt(sign: float) -> Any:
    """DCA with a wrong multiple of the subgradient of H."""

    class Wrong(DifferenceOfConvex):
        def subgradient(self, margin: Any, w: Any) -> LinearTerm:
            tilt = super().subgradient(margin, w)
            return LinearTerm(sign * tilt.margin, sign * tilt.normal)

    return lambda form: Wrong(**{name: getattr(form, name) for name in form.__dataclass_fields__})


PROX, CONIC, SMO = solvers.ProxALM(), solvers.Conic(), solvers.SMO()
BUGS: list[tuple[Solver, str, str]] = [
    (FrankWolfe("uphill"), "primal and dual", "farther from 0 than the centre"),
    (FrankWolfe("step"), "primal and dual", "the steps are not averaged"),
    (FrankWolfe("caps"), "feasibility", "above the cap"),
    (FrankWolfe("mass"), "feasibility", "its scale: 0.5 times"),
    (FrankWolfe("exchanged"), "primal and dual", "blocks 0 and 1 are exchanged"),
    (FrankWolfe("behind"), "primal", r"their angle is -1\W.*the sign of w"),
    (FrankWolfe("one block"), "primal and dual", "the step of block 1"),
    (FrankWolfe("early"), "status", "stop"),
    (FrankWolfe("sign of block"), "primal and dual", "a reported gap is negative"),
    (FrankWolfe("infeasible"), "status", "an infeasible problem"),
    (ADMM("prox"), "primal and dual", "2 times the penalty: the step of the proximal map"),
    (ADMM("scale"), "primal and dual", "3 times the penalty: .* scale of the penalty"),
    (ADMM("loss"), "primal and dual", "0.5 times the penalty: .* or of the loss"),
    (ADMM("weights"), "primal and dual", "the weights of the samples are left out"),
    (ADMM("bias"), "primal and dual", "b is left at 0"),
    (ADMM("frozen"), "primal and dual", "a step that does not lead to the optimum"),
    (ADMM("sign of dual"), "dual", "the sign of the slopes"),
    (ADMM("scale of dual"), "dual", "the scale of the slopes: 2 times"),
    (ADMM("labels in dual"), "dual", "the labels in the slopes"),
    (ADMM("sign of w"), "primal", "the sign of w and b"),
    (ADMM("scale of w"), "primal", "the scale of w: 2 times"),
    (ADMM("b of another problem"), "primal", "b, which"),
    (Spoiled(HingeDual, SMO, lambda a, f: replace(a, slopes=f.y * a.slopes)), "feasibility", "the labels"),
    (Spoiled(HingeDual, SMO, lambda a, f: replace(a, slopes=3.0 * a.slopes)), "feasibility", "the clip to C"),
    (Spoiled(HingeDual, SMO, kept, lambda f: replace(f, C=0.5 * f.C)), "primal and dual", "stand at 0.5 C"),
    (Spoiled(DifferenceOfConvex, solvers.DCA(PROX), kept, of_tilt(0.0)), "primal and dual", "H is left"),
    (Spoiled(DifferenceOfConvex, solvers.DCA(PROX), kept, of_tilt(-1.0)), "primal and dual", "the sign of"),
    (Spoiled(UnitNorm, solvers.Rapminos(), lambda a, f: replace(a, w=2.0 * a.w)), "feasibility", "normal"),
    (Spoiled(UnitNorm, solvers.Rapminos(), lambda a, f: replace(a, w=-a.w)), "primal", "the sign of w"),
    (
        Spoiled(BestSubset, solvers.BranchAndBound(PROX), lambda a, f: replace(a, w=a.w + 0.01)),
        "feasibility",
        "beyond the k largest",
    ),
    (
        Spoiled(BestSubset, solvers.BranchAndBound(PROX), lambda a, f: replace(a, parts=a.parts[1:])),
        "dual",
        "a branch is missing",
    ),
    (Spoiled(GeneralComposite, CONIC, lambda a, f: replace(a, slopes=-a.slopes)), "dual", "the sign of"),
]  # fmt: skip


@pytest.mark.parametrize(("solver", "side", "cause"), BUGS, ids=lambda x: getattr(x, "bug", None))
def test_side_and_cause_of_a_planted_bug_are_named(solver: Solver, side: str, cause: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s)Wrong side: {side}: .*{cause}"):
        check_solver(solver, tol=1e-3 if isinstance(solver, FrankWolfe) else 1e-6)


def test_the_own_methods_are_right_without_a_bug() -> None:
    check_solver(FrankWolfe(), tol=1e-2)
    check_solver(ADMM(), tol=1e-4)


class FlippedDual(Solver[Composite]):
    """A right answer whose dual point has the wrong sign."""

    name = "flipped-dual"

    def refuse(self, form: Composite) -> str | None:
        return None

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        answer = PROX.solve(form, monitor, start)
        return replace(answer, slopes=-np.array(answer.slopes))


def test_verify_does_not_agree_with_a_flipped_dual() -> None:
    X, y = ucm.datasets.load("iris")
    plan = ucm.compile(ucm.Hinge() + ucm.L1(), X, y, solver=FlippedDual())
    with pytest.warns(ConvergenceWarning, match="relative gap of 1"):
        plan.solve()
    report = plan.verify()
    assert not report.agrees and report.difference < 1e-6, str(report)
    assert report.finding is not None and report.finding.side == "dual"
    assert "the sign of the slopes" in str(report) and "DIFFERS" in str(report)


def test_a_proven_answer_refutes_an_inaccurate_reference() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    plan = ucm.compile(ucm.models.nu_svm(0.3), X, y)
    assert plan.solve().status == "optimal" and plan.verify()
    report = plan.verify(solver="SCS", eps_abs=1e-3, eps_rel=1e-3)
    assert report.finding is not None and report.finding.side == "reference", str(report)
    assert re.match(r"SCS is off by \S+; the answer is proven to \S+\.\n", str(report)), str(report)
    assert "DIFFERS" not in str(report) and "the reference is off" in report._repr_html_()
    (remedy,) = report.finding.causes
    assert eval(f"plan.{remedy}", {"plan": plan}).agrees, remedy
