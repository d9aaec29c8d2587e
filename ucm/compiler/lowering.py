"""The contract of a lowering: from a declaration to a standard form, and back.

What a lowering changes on the way in it undoes on the way back. The certificate is of the declaration:
nothing of the form enters it but the answer of the solver.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ucm.compiler.recover import BIAS_RULES
from ucm.data.bound_data import Data
from ucm.data.gram import Expansion, Gram
from ucm.data.kernel_options import FeatureFunction
from ucm.data.kernels import Kernel
from ucm.data.linear_map import Vec
from ucm.data.weights import EffectiveWeights
from ucm.errors import CompositionError, DataError, ParameterError, UCMError, brief
from ucm.evidence.certificate import is_proven
from ucm.evidence.reference import Verification
from ucm.evidence.support import vector_of
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Answer, Solver, StandardForm, Status, checked
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.node import DeclaredModel, Node
from ucm.language.objective import Objective
from ucm.language.sets.combination import Combination
from ucm.language.statistics.affine import VectorNode

Form = TypeVar("Form", bound=StandardForm)


@dataclass(frozen=True)
class Regime:
    """Whether a model is convex for its data (a set: without 0), with the reason as a sentence.

    `floor` is a lower bound of the optimum of a set that holds 0: minus the norm of a point of it.
    """

    convex: bool
    how: str
    floor: float = 0.0


@dataclass(frozen=True)
class Proof:
    """An answer with its certificate, the value of the declared problem, and w, b, x as for `Solution`.

    `size` is how large the points of U are; b is None where it is no variable.
    """

    answer: Answer
    certificate: Certificate
    objective: float
    w: Vec | None
    b: float | None = None
    x: Vec | None = None
    size: float = 0.0


class Verdict(NamedTuple):
    """The status of a solution with its message; `warns` asks for a warning to the user."""

    status: Status
    message: str
    warns: bool = False


def warm_start_error(same: str) -> ParameterError:
    """Return the `ParameterError` for a warm start of another shape; `same` describes a valid start."""
    return ParameterError(f"solve: warm_start is the solution of a model of another shape; give one {same}")


@dataclass(frozen=True)
class Recovered:
    """The parts of a `Solution` that are recovered from a certified answer.

    Attributes
    ----------
    expansion : w as a function of samples by a kernel, or of approximate features
    normal : w in the features, where it is in another space; None where it is the same
    make_weights, make_summand_points : functions of what takes a pass or more, called when it is read
    multipliers : of the constraints of w
    """

    w: Vec | None
    b: float | None
    x: Vec | None
    weights: Vec | None
    bias_rule: str
    coefficients: Vec | None = None
    expansion: Expansion | FeatureFunction | None = None
    make_summand_points: Callable[[], tuple[Vec, ...]] | None = None
    rho: float | None = None
    normal: Vec | None = None
    make_weights: Callable[[], Vec] | None = None
    multipliers: tuple[Vec, ...] = ()

    def by_kernel(self, gram: Gram, c: Vec) -> Recovered:
        """Return the parts with w as the kernel expansion `sum_i c_i phi(x_i)`, without coordinates."""
        expansion = Expansion.of(gram.kernel, gram.X, c)
        return replace(self, w=None, x=None, coefficients=c, expansion=expansion)

    def over(self, weighing: EffectiveWeights) -> Recovered:
        """Return the parts with vectors over all given samples, 0 for samples of weight 0."""
        if weighing.nonzero is None:
            return self
        expansion = self.expansion
        if isinstance(expansion, Expansion):
            support = weighing.nonzero[expansion.support]
            expansion = replace(expansion, support=support, m=weighing.n_input)
        weights, c = weighing.scatter(self.weights), weighing.scatter(self.coefficients)
        return replace(self, weights=weights, coefficients=c, expansion=expansion)


@dataclass(frozen=True)
class ExternalAnswer:
    """The answer of an external solver: the arguments of `Plan.certify`."""

    w: object = None
    b: object = None
    x: object = None
    weights: object = None
    coefficients: object = None

    def vector(self, name: str, size: int) -> Vec | None:
        """Return the named entry as a vector of finite numbers of this length; None if it is not given."""
        v = getattr(self, name)
        return None if v is None else vector_of(v, size, f"certify: {name}")

    def per_sample(self, name: str, data: Data) -> Vec | None:
        """Return the named entry at the samples of positive weight; None if it is not given."""
        v, nonzero = self.vector(name, data.given), data.weighing.nonzero
        if v is None or nonzero is None:
            return v
        left_out = np.setdiff1d(np.flatnonzero(v), nonzero)
        if left_out.size:
            raise DataError(
                f"certify: {name}: expected 0 for the samples of weight 0, which are left out, got "
                f"{v[left_out[0]]:g} for sample {left_out[0]}; set it to 0"
            )
        return v[nonzero]

    def refuse(self, why: str, *names: str) -> None:
        """Raise `ParameterError` with the reason `why` if any of the named entries is given."""
        for name in names:
            if getattr(self, name) is not None:
                raise ParameterError(f"certify: unexpected {name}: {why}")

    def refuse_space(self, hidden: bool, others: str = "") -> None:
        """Refuse w and x where a kernel hides the features, else coefficients; name the others to give."""
        if hidden:
            self.refuse(f"a kernel hides the features; give coefficients{others}", "w", "x")
        else:
            self.refuse(f"no kernel hides the features; give w{others}", "coefficients")


@dataclass(frozen=True)
class BoundModel:
    """A declaration bound to data, and the requested solver: what a lowering is made from.

    Attributes
    ----------
    model : the declaration, without relative parameters
    data : the samples in memory, or the statistics of rows that are read block by block
    gram : the Gram matrix of an exact kernel; None without one
    requested : the solver by name or as an instance, or "auto"
    """

    model: DeclaredModel  # as the kind tells
    data: Data
    gram: Gram | None = None
    requested: str | Solver = "auto"

    @property
    def kind(self) -> str:
        """The kind of problem, by which `ucm.compiler.compile.LOWERINGS` lists the lowerings."""
        over_rows = self.data.source is not None
        match self.model:
            case Objective() if over_rows:
                return "objective over rows"
            case Objective(needs=needs) if "flips" in needs:
                return "objective with label flips"
            case Objective(needs=needs):
                return "objective of few features" if "envelope" in needs else "objective"
        return "set over rows" if over_rows else "set by lam" if self.model.by_lam else "set"

    @property
    def hides_features(self) -> bool:
        """True if a nonlinear kernel replaces the features by its own feature space."""
        return self.gram is not None and self.gram.kernel.name != "linear"


def in_its_space(data: Data, gram: Gram | None) -> Data:
    """Return the samples in coordinates of the feature space of a nonlinear kernel; otherwise unchanged."""
    return data if gram is None or gram.kernel.name == "linear" else data.in_feature_space(gram)


def check_features(declared: Node) -> None:
    """Raise `CompositionError` if a declaration uses feature coordinates, which a kernel hides."""
    node = declared.in_features()
    if node is not None:
        raise CompositionError(
            f"kernel: {node!r} is written in the features, and a kernel replaces these by its own feature "
            "space; use sets made of samples (hulls, ellipsoids of means and covariances, Ball(0, r)), L2() "
            "or Norm(2), derive a class of your own from ucm.extend.RotationInvariant, or use an "
            "approximation of the kernel, kernel_approx=500"
        )


def extensions(declared: Node) -> Iterator[Node]:
    """Yield the nodes of classes from outside of the library, for a `Combination` those of its terms."""
    for node in declared.walk():
        if type(node).__module__.partition(".")[0] == __name__.partition(".")[0]:
            continue
        if isinstance(node, Combination):
            for U, _ in node.terms():
                yield from extensions(U)
        else:
            yield node


def check_statistics(declared: Node, data: Data) -> None:
    """Raise `CompositionError` for a vector of a class from outside of the library, not of n numbers."""
    for node in extensions(declared):
        if isinstance(node, VectorNode):
            v = node.evaluate(data)
            numeric = isinstance(v, np.ndarray) and v.dtype.kind in "fiu"
            if not numeric or v.shape != (data.n,) or not np.isfinite(v).all():
                raise CompositionError(
                    f"{node!r}: evaluate: expected an array of {data.n} finite numbers, one a feature, "
                    f"got {brief(v)}; return one of shape ({data.n},)"
                )


_SAMPLED = 3  # features of the samples that show whether coefficients depend on X
_SCALES = (0.1, 1.0, 1.0, 10.0)  # of the parameters of a set, for points inside and outside


def check_combinations(declared: Node, data: Data) -> None:
    """Raise `CompositionError` unless points combine the samples with coefficients that ignore X.

    A kernel takes the points over unit vectors e_i in place of samples for these coefficients. A class from
    outside of the library states the property only: its points c over the e_i are compared with its points
    R'c over random samples, the rows of R, and its support function at the scores R d with that at d.
    """
    if not (nodes := list(extensions(declared))):
        return
    rng = np.random.default_rng(0)
    R, d = rng.standard_normal((data.m, _SAMPLED)), rng.standard_normal(_SAMPLED)
    features = data.with_coordinates(R)
    by_rows = features.in_gram_space(Gram(Kernel("linear"), R))

    def pairs(node: Node) -> Iterator[tuple[ArrayLike, ArrayLike]]:
        """Yield pairs of numbers that are equal, of the unit vectors and of the features."""
        over = (by_rows, features.over_samples)
        if isinstance(node, VectorNode):
            yield from ((R.T @ node.evaluate(unit), node.evaluate(features)) for unit in over)
        if isinstance(node, UncertaintySet):
            sizes, other = ([b.map.shape[1] for b in node.lower(at).blocks] for at in (features, by_rows))
            yield other, sizes
            for unit, scale in itertools.product(over, _SCALES):
                q = [scale * rng.standard_normal(size) for size in sizes]
                c, outside = node.evaluate(unit, iter(q))
                x, violation = node.evaluate(features, iter(q))
                yield from ((R.T @ c, x), (outside, violation))
            yield node.support(by_rows, R @ d, {})[0], node.support(features, d, {})[0]

    for node in nodes:
        failure = None
        try:
            same = all(np.allclose(a, b, 1e-6, 1e-9) for a, b in pairs(node))
        except UCMError:
            raise
        except Exception as error:  # of any kind: the class does not take unit vectors
            same, failure = False, error
        if not same:
            raise CompositionError(
                f"{node!r}: with a kernel, expected points that combine the samples with coefficients that "
                "do not depend on X, got others; leave out the base RotationInvariant, and use an "
                "approximation of the kernel, kernel_approx=500"
            ) from failure


class Lowering(ABC, Generic[Form]):
    """A model bound to data and translated to a standard form, with the way back to a classifier.

    Attributes
    ----------
    model, data : the declaration and the samples
    form : the standard form, which a solver sees
    requested : the solver by name or as an instance, or "auto"
    gram : the Gram matrix of a kernel, where the data are not in its space
    factor : the objective of the model over the objective of the form
    bias_rules : the rules of the bias that apply
    bias_refusal : the reason for which other rules do not apply
    """

    model: DeclaredModel  # subclasses narrow it
    data: Data
    form: Form
    requested: str | Solver
    gram: Gram | None = None
    factor: float = 1.0
    bias_rules: tuple[str, ...] = BIAS_RULES
    bias_refusal: ClassVar[str] = "b is a variable of this objective"

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        """Return the lowerings that this class offers for a model, the preferred one first; () for none.

        `ucm.compiler.compile.LOWERINGS` lists the classes that are asked for each `BoundModel.kind`.
        """
        return ()

    @property
    def kernel(self) -> str:
        """The name of the kernel or of its approximate features, for the certificate; "" without a kernel."""
        return self.data.kernel if self.gram is None else self.gram.description

    @property
    def regime(self) -> Regime:
        """The convexity of the model with the reason; by default convex, until the solve decides."""
        return Regime(True, "the solve decides")

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """Return the lines of `explain()` about the data and the form, as a dict from name to text."""

    def describe_data(self, how: str = "features spanning it") -> str:
        """Return the numbers of samples, features and entries as text; `how` describes a kernel's space."""
        data = self.data
        kernel = "" if data.gram is None else f"; {data.gram.kernel}, {how}"
        return f"{data.m} samples, {data.n} features, {data.stored} entries{kernel}"

    def describe_other(self, solver: str, verbose: bool) -> list[str]:
        """Return the lines of `explain()` about a form that may replace this form; none by default."""
        return []

    def before_solve(self, monitor: Monitor) -> Lowering | None:
        """Return the lowering to solve in place of this one; None, the default, to solve this one."""
        return None

    def after_proof(self, proof: Proof, monitor: Monitor) -> Lowering | None:
        """Return the lowering to continue with after a solve; None, the default, if there is none."""
        return None

    def warm_start(self, warm: Solution) -> Answer | None:
        """Return the start of a solver from an earlier solution, or None; raises `warm_start_error`."""
        return None

    def run(self, solver: Solver[Form], monitor: Monitor, start: Answer | None, starts: int) -> list[Answer]:
        """Return the answers of a solver, one for each start; by default one answer, from `start`."""
        return [self.answer(solver, monitor, start)]

    def answer(self, solver: Solver[Form], monitor: Monitor, start: Answer | None) -> Answer:
        """Return the validated answer of a solver from one start."""
        return checked(solver.solve(self.form, monitor, start), self.form.expected, solver.name)

    @abstractmethod
    def certify(self, answer: Answer, tol: float) -> Proof:
        """Return the proof of an answer by the declaration; `tol` is a sufficient relative gap."""

    @abstractmethod
    def certify_external(self, external: ExternalAnswer) -> Certificate:
        """Return the certificate of an external solver's answer; raise if it is not one of this model."""

    def settled(self, proof: Proof, tol: float) -> bool:
        """True if no other solver of the form can end better; by default with a proof of the gap `tol`."""
        return is_proven(proof.certificate, tol)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        """Return the verdict if the lowering decides the status; None, the default, to judge by the gap."""
        return None

    @abstractmethod
    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        """Return w, b and the sample weights of a certified answer; raise if the bias rule does not apply."""

    @abstractmethod
    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        """Return the CVXPY reference problem; of a non-convex model its convex problem at a solution."""

    def dual_reference(self) -> cp.Problem | None:
        """Return the dual of the reference problem in CVXPY; None by default."""
        return None

    @abstractmethod
    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        """Compare a solution with the reference problem; `tol` is the relative gap of the solution."""
