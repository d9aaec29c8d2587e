"""`check_solver`: every solver of the library keeps its laws, and every wrong one is caught by its law."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ucm import solvers
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer, Solver
from ucm.language.contracts import Projectable
from ucm.solvers import ALM, APG, SSNAL, HiGHS, LevelSetNewton
from ucm.testing import check_solver

DISTANCE = [
    ALM(APG()),
    ALM(SSNAL()),
    APG(),
    SSNAL(),
    SSNAL(iterative=True),
    LevelSetNewton((SSNAL(),)),
    solvers.Conic("clarabel"),
    solvers.ClipMDM(),
    solvers.Conic("ecos"),
    solvers.GSK(),
    solvers.SMO(),
    solvers.SMO(),
    solvers.HiGHS(),
    solvers.ActiveSet(),
    solvers.TrustRegionSecular(),
]
SPHERE = [
    solvers.Faces(),
    solvers.Facets(),
    solvers.Linearize(),
    solvers.Rapminos(),
]
LOSSES = [
    solvers.ProxNewton(),
    solvers.ProxALM(),
    solvers.PSMO(),
    solvers.DCA(solvers.ProxALM()),
    solvers.BranchAndBound(solvers.ProxALM()),
    solvers.OutOfCoreActiveSet(solvers.ActiveSet()),
    solvers.NewtonRows(),
]


@pytest.mark.parametrize("solver", [*DISTANCE, *SPHERE, *LOSSES], ids=repr)
def test_a_solver_keeps_its_laws(solver: Solver[Any]) -> None:
    check_solver(solver)


def test_scs_is_as_accurate_as_it_is_asked_to_be() -> None:
    check_solver(solvers.Conic("scs"), tol=1e-4)


@pytest.mark.parametrize(
    ("solver", "law"),
    [
        (solvers.MDM(), "two reduced hulls: the run ends with a solution: 'stalled', mdm stalled"),
        (solvers.ClipGSK(), "the run ends with a solution: 'stalled', clip-gsk stalled"),
        (solvers.Subgradient(), "w is stationary"),
        (APG(stop="paper", eps=1e-2), "the distance is that of Clarabel"),
    ],
    ids=repr,
)
def test_check_solver_names_the_failed_law(solver: Solver[Any], law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_solver(solver)


class Right(Solver[MinNorm]):
    """Projected gradient steps with momentum."""

    name = "right"

    def refuse(self, form: MinNorm) -> str | None:
        return form.reason_against(Projectable, "projection")

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        q = p = form.begin(start)
        L = sum(float((b.map.column_norms() ** 2).sum()) for b in form.blocks)
        theta, norm = 1.0, np.inf
        for k in range(1, monitor.limit(50_000) + 1):
            x = form.matvec(p)
            new = [
                b.domain.project(v - g / L)  # type: ignore[attr-defined]
                for b, v, g in zip(form.blocks, p, form.rmatvec(x), strict=True)
            ]
            x = form.matvec(new)
            monitor.passes += 1.5 * form.pass_cost()
            before, norm = norm, float(np.linalg.norm(x))
            theta, last = (1.0 if norm > before else 0.5 + np.sqrt(0.25 + theta**2)), theta
            momentum = 0.0 if norm > before else (last - 1.0) / theta
            p = [a + momentum * (a - b) for a, b in zip(new, q, strict=True)]
            q = new
            if norm <= 1e-8:
                return Answer(q)
            gap = norm - form.lower_bound(x / norm)
            if monitor.report(k, -norm, gap / norm):
                return Answer(q, status="interrupted", message="stopped by the callback")
            if gap <= 0.5 * monitor.tol * norm:
                return Answer(q, x / norm)
        return Answer(q, status="max_iter", message="raise max_iter")


def test_a_custom_solver_passes_the_laws() -> None:
    check_solver(Right())


class Wrong(Solver[MinNorm]):
    """`Right`, spoiled: `how` takes the form, the monitor, the start and what runs it."""

    name = "wrong"

    def __init__(self, how: Any) -> None:
        self.how = how

    def refuse(self, form: MinNorm) -> str | None:
        return Right().refuse(form)

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Any:
        return self.how(form, monitor, start, Right().solve)


def opposite(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    """The farthest point in place of the nearest."""
    monitor.report(1, 0.0, 0.0)
    x = form.matvec(form.centers())
    return Answer([q for _, q in form.supports(form.rmatvec(x))], x / np.linalg.norm(x))


def behind(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, monitor, start)
    return Answer(answer.q, None if answer.w is None else -answer.w, status=answer.status)


def deaf(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    if monitor.callback is not None:
        monitor.callback = lambda record, hear=monitor.callback: hear(record) is None
    return solve(form, monitor, start)


def endless(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    monitor.max_iter = None
    return solve(form, monitor, start)


def not_a_number(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, monitor, start)
    return Answer([v * np.nan for v in answer.q], status=answer.status)


def outside(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, monitor, start)
    return Answer([1.01 * v for v in answer.q], answer.w, status=answer.status)


def early(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, Monitor(1e-2, monitor.max_iter, monitor.callback), start)
    monitor.history = [{"iteration": 1, "passes": 1.0}]
    monitor.passes = 1.0
    return answer


def writes_center(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, monitor, start)
    form.center[:] += 1.0
    return answer


def writes_start(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    if start is not None:
        for v in start.q:
            v *= 0.5
    return solve(form, monitor, start)


def trusts_start(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    monitor.report(1, 0.0, 0.0)
    return Answer(start.q) if start is not None else solve(form, monitor, start)


def one_block(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, monitor, start)
    return Answer(answer.q[:1], answer.w, status=answer.status)


def silent(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    return solve(form, Monitor(monitor.tol, monitor.max_iter), start)


def rewinds(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, monitor, start)
    monitor.passes = 0.0
    return answer


def other_words(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    answer = solve(form, monitor, start)
    return Answer(answer.q, answer.w, status="fine")  # type: ignore[arg-type]


def raises(form: Any, monitor: Any, start: Any, solve: Any) -> Answer:
    return solve(form, monitor, start).q["w"]


WRONG = [
    (opposite, "the distance is that of Clarabel"),
    (behind, "w points to the side of x"),
    (deaf, "it stops where the callback answers True"),
    (endless, "`max_iter=1` stops it"),
    (not_a_number, "a plan takes the answer: .*finite numbers in q"),
    (outside, "the blocks lie in their domains"),
    (early, "the distance is that of Clarabel"),
    (writes_center, "the inputs are unchanged"),
    (writes_start, "the inputs are unchanged"),
    (trusts_start, "the blocks lie in their domains"),
    (one_block, "a plan takes the answer: .*expected q with 2 blocks"),
    (silent, "every run is reported"),
    (rewinds, "passes only grow"),
    (other_words, "a plan takes the answer: .*expected a status among"),
    (raises, "`solve` ends with an answer: TypeError"),
    (lambda *given: np.zeros(3), "a plan takes the answer: .*expected a ucm.forms.solver.Answer"),
    (lambda *given: None, "a plan takes the answer: .*expected a ucm.forms.solver.Answer"),
]


@pytest.mark.parametrize(("how", "law"), WRONG, ids=lambda x: getattr(x, "__name__", str(x)))
def test_a_wrong_solver_is_caught_by_its_law(how: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=f"two hulls: {law}"):
        check_solver(Wrong(how))


class Always(Wrong):
    """Refuses nothing."""

    def __init__(self, refuse: Any) -> None:
        super().__init__(None)
        object.__setattr__(self, "refuse", refuse)


def test_an_empty_set_is_no_solution() -> None:
    """A solver that drops the couplings finds a point where there is none."""

    class Uncoupled(Solver[MinNorm]):
        name = "uncoupled"

        def refuse(self, form: MinNorm) -> str | None:
            return None if len(form.couplings) == 1 and form.n == 3 else "it takes one coupling"

        def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
            answer = solvers.Conic("clarabel").solve(form, monitor, start)
            return replace(answer, status="converged") if answer.status == "infeasible" else answer

    with pytest.raises(AssertionError, match='an empty set: an empty set is "infeasible": converged'):
        check_solver(Uncoupled())


def raising(form: Any) -> str | None:
    raise ValueError("unknown form")


@pytest.mark.parametrize(
    ("refuse", "law"),
    [
        (raising, r"never raises: ValueError\('unknown form'\)"),
        (lambda form: False, "`refuse` gives a reason or None: False"),
        (lambda form: "", "`refuse` gives a reason or None: ''"),
        (lambda form: "never", "it takes one of the forms: two hulls: never"),
    ],
)
def test_check_solver_finds_invalid_refusals(refuse: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_solver(Always(refuse))


def test_check_solver_names_missing_methods() -> None:
    class Half(Solver[MinNorm]):
        name = "half"

        def refuse(self, form: MinNorm) -> str | None:
            return None

    class Duck:
        def solve(self, form: Any, monitor: Any, start: Any = None) -> None: ...

    class Loose:
        name = "loose"
        refuse = solve = print

    class Nameless(Solver[MinNorm]):
        refuse = solve = Right.refuse  # type: ignore[assignment]

    class Own:
        """A form of someone's own."""

    class Elsewhere(Solver[Own]):
        name = "elsewhere"
        refuse = solve = Right.refuse  # type: ignore[assignment]

    wanted: list[tuple[Any, str]] = [
        (Half, "Half: a solver has the methods: solve"),
        (Duck(), "a solver has the methods: refuse"),
        (Loose(), "an instance of a subclass of ucm.forms.solver.Solver"),
        (Right, "Right: it is an instance"),
        (Nameless(), "it has a `name`"),
        (Elsewhere(), "its form is one of MinNorm, UnitNorm, Composite, .*RowLosses: Own"),
    ]
    for solver, law in wanted:
        with pytest.raises(AssertionError, match=law):
            check_solver(solver)


def test_a_session_that_forgets_the_tilt_is_caught() -> None:
    class Part(HiGHS):
        def solve(self, form: Any, monitor: Any, start: Any = None) -> Any:
            form = form.tilted(None) if isinstance(form, Composite) else form
            return super().solve(form, monitor, start)

        def session(self, form: Any) -> Any:
            return self

    with warnings.catch_warnings(), pytest.raises(AssertionError, match="tilted, is solved"):
        check_solver(Part())
