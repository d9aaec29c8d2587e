"""Certificates of solutions from other software: a normal, a point of U or weights of the samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import IdentityMap, Vec
from ucm.errors import ParameterError
from ucm.evidence.certificate import fault, interval
from ucm.evidence.feasible_point import BESIDE
from ucm.evidence.support import SupportFunction
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import INSIDE
from ucm.forms.solution import Certificate
from ucm.language.contracts import Block, SampleWeights
from ucm.language.domains.simplex import Capped
from ucm.language.notation import TEXT
from ucm.language.robust import RobustMargin


def both_sides(
    model: RobustMargin, data: Data, unit: Vec | None, x: Vec | None, violation: float, broken: str = ""
) -> Certificate:
    """Return the certificate `-||x||_q <= optimum <= sigma_U(-w)` of a normal w, a point x, or both.

    The lower bound is -inf where the violation is NaN or above `INSIDE`; `broken` then says why.
    """
    primal, size = np.inf, 0.0
    if x is not None:
        size = data.space.norm(x, model.dual)
        if unit is None and size > 0.0:
            unit = data.space.dual_vector(x, model.dual)
    if unit is not None:
        primal = SupportFunction(model.set, data)(-unit).value
    wrong = fault("the lowering of this set", model)
    certificate = interval(primal, size, violation, data.scale, wrong=wrong)
    return replace(certificate, broken=broken) if violation > INSIDE else certificate


def broken_rule(form: MinNorm, blocks: list[Vec], violation: float, y: Vec) -> str:
    """Return a text with the violated constraints of the weights of samples, and the violations."""
    messages: list[str] = []
    for b, q in zip(form.blocks, blocks, strict=True):
        domain = b.domain.formula(TEXT)
        whose = f"in {domain} " if len(form.blocks) > 1 else ""
        if whose and b.samples is not None and np.ptp(y[b.samples]) == 0.0:
            whose = f"of class {y[b.samples][0]:+.0f} {whose}"
        rules = [] if b.samples is None else _rules(b, q, whose)
        violated = [text for amount, text in rules if amount > BESIDE]
        if not violated and b.domain.violation(q) > BESIDE:
            violated = [f"the weights break {domain}"]
        messages += violated
    words = messages or ["the weights give no common point of the intersected sets"]
    return f"{'; '.join(words)} (violation {violation:.3g})"


def _rules(b: Block, q: Vec, whose: str) -> list[tuple[float, str]]:
    """Return pairs of violation and text for the sign, sum and cap constraints of the weights of a block."""
    least = float(q.min(initial=0.0))
    rules = [(-least, f"a weight {whose}is negative, {least:.3g}")]
    for k, (index, required) in enumerate(SampleWeights(q.size, None, b.classes).groups):
        of = f"of class {'+-'[k]}1 " if b.classes is not None else ""
        total = float(q[index].sum())
        text = f"the weights {of}{whose}add up to {total:.6g}, not to {required:g}"
        rules.append((abs(total - required) / required, text))
    if isinstance(b.domain, Capped):
        caps = np.broadcast_to(b.domain.cap * b.domain.samples.c, q.size)
        k = int(np.argmax(q / caps))  # a sample of weight c has c times the cap
        above = f"the largest weight {whose}is {q[k]:.6g}, above the cap {caps[k]:.6g}"
        rules.append((q[k] / caps[k] - 1.0, above))
    return rules


def of_weights(form: MinNorm, weights: Vec) -> list[Vec]:
    """Return the blocks of a set with given weights of the samples; `ParameterError` if undetermined."""
    blocks: dict[int, Vec] = {}
    assigned = np.zeros(weights.size, dtype=bool)
    for k, b in enumerate(form.blocks):
        q, determined = np.zeros(b.map.shape[1]), 0
        for where, part in b.parts or ((slice(None), b),):
            if part.samples is None or part.weight == 0.0:
                continue
            if assigned[part.samples].any():
                raise _no_weights("a sample has weights in two hulls")
            assigned[part.samples] = True
            q[where] = weights[part.samples] / abs(part.weight)
            determined += part.samples.size
        if determined == q.size:
            blocks[k] = q
    for c in form.couplings:  # the copies of weights in an intersection of domains
        (first, A), *copies = c.terms
        for k, B in copies:
            if first in blocks and isinstance(A, IdentityMap) and isinstance(B, IdentityMap):
                blocks.setdefault(k, blocks[first])
    if len(blocks) < len(form.blocks):
        raise _no_weights("a part is made of no samples")
    if weights[~assigned].any():
        raise _no_weights("a sample with a weight has no place")
    return [blocks[k] for k in range(len(form.blocks))]


def _no_weights(why: str) -> ParameterError:
    return ParameterError(
        "certify: weights: expected a set whose points are sums of samples, each with one weight, got a set "
        f"where {why}; give the point x itself"
    )
