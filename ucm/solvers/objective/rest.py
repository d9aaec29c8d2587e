"""A second solver for composite problems that the first leaves unsolved."""

from __future__ import annotations

from ucm.data.linear import Vec
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, InnerSolver, Session, Tilt
from ucm.language.losses import Exponential, Logistic
from ucm.language.term_algebra import peeled

__all__ = ["instead", "moderate", "sparse_enough"]

_MODERATE = 200_000  # entries of the samples, of which another solver may be asked


def moderate(rest: InnerSolver | None, form: Composite) -> bool:
    """Whether there is another solver, and the problem is not too large for it."""
    return rest is not None and form.m * form.n <= _MODERATE


def sparse_enough(rest: InnerSolver | None, form: Composite) -> bool:
    """So too for sparse samples by their stored entries, but with exponential cones: of 2000 samples of text
    an interior-point method then ends after minutes, elsewhere after ten seconds."""
    curved = any(isinstance(peeled(loss)[1], (Logistic, Exponential)) for loss in form.losses)
    return moderate(rest, form) or (rest is not None and not curved and form.entries <= _MODERATE)


def instead(
    rest: InnerSolver | None,
    form: Composite,
    tilt: Tilt,
    tol: float,
    monitor: Monitor,
    here: tuple[Vec, float],
) -> tuple[Session, Answer] | None:
    """The session and the answer of the other solver, where there is one that is no worse than `here`: it is
    asked from then on. One that does not take the form leaves it to its own."""
    while rest is not None and rest.refuse(form) is not None:
        rest = getattr(rest, "rest", None)
    if rest is None or monitor.late:
        return None
    w, b = here
    height = form.value(form.margins(w, b), w, tilt)
    other = rest.open(form, monitor)
    other.place(w, b)
    answer = other.solve(form, tilt, tol)
    w, b = answer.plane
    there = form.value(form.margins(w, b), w, tilt)
    if answer.slopes is None or there > height + tol * abs(height):
        return None
    return other, answer
