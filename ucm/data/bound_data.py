"""Bound samples: validated X and y, the classes, their statistics, the feature space."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import get_blas_funcs

from ucm.data.effective_weights import (
    UNWEIGHTED,
    EffectiveWeights,
    sample_weights_of,
)
from ucm.data.gram import Gram
from ucm.data.kernel_features import KernelFeatures
from ucm.data.linear_map import LinearMap, Vec
from ucm.data.maps import IdentityMap, MatrixMap, RowMap, SampleMap, centered_map
from ucm.data.moments import Moments, exact_mean, without_constant
from ucm.data.row_metadata import members
from ucm.data.source import RowSource, as_double
from ucm.data.spectrum import psd_root
from ucm.data.validation import (
    Fingerprint,
    bad_entry,
    read,
    read_groups,
    read_weights,
    refuse,
    signs_of,
    vector,
)
from ucm.errors import DataError, SolverError, UCMError

T = TypeVar("T")
_NRM2: Any = get_blas_funcs("nrm2", dtype=np.float64)  # of BLAS: no square over- or underflows
_SMALL = 20_000  # entries, below which a product takes less time than comparing vectors
_SQUARABLE = 1e-152  # below it, and above its inverse, covariances are 0 or inf


class Space:
    """R^n, with the inner product, norms and dual vectors of its vectors.

    Attributes
    ----------
    resolution : norms below this part of what they are sums of are rounding
    """

    resolution: ClassVar[float] = 1e-9

    def inner(self, w: Vec, x: Vec) -> float:
        """Return `<w, x>` of a dual vector and a vector."""
        return float(w @ x)

    def norm(self, x: Vec, q: float = 2.0) -> float:
        """Return `||x||_q`, safe against overflow and underflow."""
        if q == 2.0 and x.size:
            return float(_NRM2(x))
        top = float(np.abs(x).max(initial=0.0))
        return top * float(np.linalg.norm(x / top, q)) if top != 0.0 else 0.0

    def size(self, x: Vec) -> float:
        """Return `||x||_2`, or an upper bound that takes less work."""
        return self.norm(x)

    def direction(self, w: Vec, p: float) -> Vec | None:
        """Return `w / ||w||_p`, or w if its norm is 1 to rounding; None for 0, or if the length is
        not known."""
        if p == 2.0 and abs(self.norm(w) - 1.0) <= 5e-15:
            return w
        length = self.norm(w, p)
        if length == 0.0:
            return None
        return w if abs(length - 1.0) <= 1e-14 else w / length

    def dual_vector(self, x: Vec, q: float) -> Vec:
        """Return the w with ||w||_p = 1 and <w, x> = ||x||_q, 1/p + 1/q = 1; not unique for q in {1, inf}.

        For 1 < q < inf it is `sign(x) |x|^(q-1) / ||x||_q^(q-1)`.
        """
        top = float(np.abs(x).max(initial=0.0))
        if top == 0.0:
            return np.zeros_like(x)
        v = np.abs(x) / top
        if q == np.inf:
            w = np.zeros_like(x)
            k = int(np.argmax(v))
            w[k] = np.sign(x[k])
            return w
        w = v ** (q - 1.0)
        return np.sign(x) * w / float(np.linalg.norm(v, q)) ** (q - 1.0)


def refuse_squares(scale: float, statistic: str) -> None:
    """Raise `DataError` if squares of entries up to `scale` are not finite, positive doubles."""
    if not _SQUARABLE < scale < 1.0 / _SQUARABLE:
        raise DataError(
            f"X: expected entries whose squares are numbers, as {statistic} need them, got entries up to "
            f"{scale:.3g}; scale the features"
        )


class GramSpace(Space):
    """Coefficients over samples: the vector c is `sum c_i phi(x_i)`, a dual vector its scores.

    `<w, c> = sum_i w_i c_i`, `||c||^2 = c'K c`, and the dual vector of c is `K c / ||c||`: only the
    Euclidean norm of the feature space has a meaning.
    """

    resolution: ClassVar[float] = 1e-7  # a norm is the root of a difference

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    @property
    def scale(self) -> float:
        """The largest norm of a sample."""
        return math.sqrt(max(float(self.gram.diagonal.max(initial=0.0)), 0.0)) or 1.0

    def scores(self, c: Vec) -> Vec:
        """Return `K c`, the scores of the samples."""
        return self.gram.times(c)

    def norm(self, x: Vec, q: float = 2.0) -> float:
        support = np.flatnonzero(x)
        square = float(x[support] @ self.scores(x)[support]) if support.size else 0.0
        return math.sqrt(max(square, 0.0))

    def size(self, x: Vec) -> float:
        """Return `sum |x_i| ||phi(x_i)||`."""
        return float(np.abs(x) @ np.sqrt(np.maximum(self.gram.diagonal, 0.0)))

    def dual_vector(self, x: Vec, q: float) -> Vec:
        return self.scores(x) / self.norm(x, q)

    def direction(self, w: Vec, p: float) -> Vec | None:
        return None  # scores do not determine the length of w


def _once(method: Callable[..., T]) -> Callable[..., T]:
    """Compute a statistic of `Data` once for each kind and group of samples."""

    @functools.wraps(method)
    def cached(self: Data, kind: str, group: Any = None) -> T:
        key, cache = (method.__name__, kind, group), self._cache
        if key not in cache:  # of two threads the first: all share one
            cache.setdefault(key, method(self, kind, group))
        return cache[key]

    return cached


class Data:
    """m samples of two classes.

    Attributes
    ----------
    X : (m, n) array or CSR matrix of float64
    table : the given samples, perhaps float32; X converts them at its first use
    y : (m,) array of +1.0 and -1.0
    weighing : the weights of samples and classes
    gram : None, or the Gram matrix of a kernel; then X holds coordinates of the samples in its
        feature space
    approx : None, or the approximate kernel features that X holds
    seal : the checksum of the given samples
    groups : the group of every sample, or None
    source, counts : of rows that are read block by block, where they are, and the weights of class +1 and
        class -1; then X holds the means, or a sample of the rows
    moments : None, or the moments by kind and group, where only these are known of the samples

    The samples of one kind, `pos`, `neg` or `signed` (all, each times its label), and perhaps of one
    group are asked for as `rows(kind, group)`, `samples(kind, group)`, `mean(kind, group)`, ...
    """

    def __init__(
        self,
        X: Any,
        y: Vec,
        weighing: EffectiveWeights = UNWEIGHTED,
        gram: Gram | None = None,
        space: Space | None = None,
        seal: Fingerprint | None = None,
        groups: np.ndarray | None = None,
        source: RowSource | None = None,
        moments: Mapping[tuple[str, Any], Moments] | None = None,
    ) -> None:
        self.table, self.y = X, y
        if X.dtype != np.float32:
            self.X = X
        self.source, self.moments = source, moments
        self.counts: tuple[float, float] = (0.0, 0.0)
        self.gram = gram
        self.approx: KernelFeatures | None = None
        self.factor: NDArray[np.float64] | None = None  # of the Gram matrix, where samples are unit vectors
        self.seal = seal
        self.groups = groups
        self.weighing = weighing
        self.m, self.n = X.shape
        self.space = Space() if space is None else space
        self._cache: dict[Hashable, Any] = {}

    @functools.cached_property
    def X(self) -> Any:
        return as_double(self.table)

    def with_coordinates(self, X: Any, gram: Gram | None = None, space: Space | None = None) -> Data:
        """Return the samples in other coordinates."""
        return Data(X, self.y, self.weighing, gram, space, self.seal, self.groups)

    def in_gram_space(self, gram: Gram) -> Data:
        """Return the samples as unit vectors of coefficients, with the inner product of a kernel: no
        coordinates, and no more of the Gram matrix than a solver asks for."""
        unit = functools.partial(sparse.eye_array, self.m, format="csr")
        return self.once(
            ("rows", gram),
            lambda: self.with_coordinates(unit(), gram, GramSpace(gram)),
        )

    @functools.cached_property
    def in_coordinates(self) -> Data:
        """The samples in coordinates of the feature space, if `X` holds coefficients."""
        if self.gram is None or not isinstance(self.space, GramSpace):
            return self
        return self.in_feature_space(self.gram)

    def in_feature_space(self, gram: Gram) -> Data:
        """Return the samples in the feature space of a kernel: in an orthonormal basis of their span,
        so that inner products, norms, means and covariances are those of the feature space."""
        return self.once(("features", gram), lambda: self.with_coordinates(gram.factor(), gram))

    def in_features(self, features: KernelFeatures) -> Data:
        """Return the samples as features that approximate a kernel."""
        data = self.with_coordinates(features.transform(self.X))
        data.approx = features
        return data

    @property
    def kernel(self) -> str:
        """The name of the kernel or of its approximate features; "" without a kernel."""
        if self.approx is not None:
            return repr(self.approx)
        if self.gram is not None:
            return self.gram.description
        return "" if self.source is None else self.source.mapping

    @functools.cached_property
    def over_samples(self) -> Data:
        """The samples as unit vectors: a combination of samples is the vector of its coefficients."""
        if isinstance(self.space, GramSpace):
            return self
        data = self.with_coordinates(sparse.eye_array(self.m, format="csr"), self.gram)
        data.factor = self.X
        return data

    def from_orthonormal(self, n: int) -> LinearMap:
        """Return the map of n orthonormal coordinates to those of the samples: the identity, and where the
        samples are unit vectors the coefficients of a point over them."""
        if self.factor is None or self.gram is None:
            return IdentityMap(n)
        return MatrixMap(self.gram.combination(self.factor, np.eye(self.factor.shape[1])))

    @functools.cached_property
    def by_spectrum(self) -> Data:
        """The samples in other coordinates of the feature space, from the eigenvalues of the
        Gram matrix: for references, which compute in their own way."""
        if self.gram is None:
            return self
        return self.with_coordinates(self.gram.spectral(), self.gram)

    @functools.cached_property
    def factors(self) -> Vec:
        """The weight of each sample times the weight of its class, (m,)."""
        factors = np.where(self.y > 0.0, *self.weighing.classes)
        return factors if self.weighing.samples is None else factors * self.weighing.samples

    @property
    def weights(self) -> Vec | None:
        """The `factors`; None if all are 1."""
        return None if self.weighing.is_uniform else self.factors

    @property
    def given(self) -> int:
        """The number of samples, with samples of weight 0."""
        return self.m if self.weighing.nonzero is None else self.weighing.n_input

    @functools.cached_property
    def total(self) -> float:
        """The sum of the weights of the samples, m without weights."""
        samples = self.weighing.samples
        return float(self.m if samples is None else samples.sum())

    @_once
    def copies(self, kind: str, group: Any = None) -> Vec | None:
        """Return the weights of the samples of `pos`, `neg` or `signed`; None where each is 1."""
        return None if self.weighing.is_uniform else self.factors[self.rows(kind, group)]

    def count(self, kind: str, group: Any = None) -> float:
        """Return the sum of the weights of the samples of a kind."""
        copies = self.copies(kind, group)
        return float(self.rows(kind, group).size if copies is None else copies.sum())

    def number(self, kind: str, group: Any = None) -> float:
        """Return the sum of the weights of the samples of a kind, without the weights of the classes."""
        rows, samples = self.rows(kind, group), self.weighing.samples
        return float(rows.size if samples is None else samples[rows].sum())

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return `make()`, computed at the first call with this key."""
        if key not in self._cache:
            self._cache.setdefault(key, make())  # of two threads the first: all share one
        return self._cache[key]

    @_once
    def _matrix(self, kind: str, group: Any = None) -> Any:
        """Return the samples in rows, without a copy of contiguous dense rows."""
        rows = self.rows(kind, group)
        together = rows.size > 0 and rows[-1] - rows[0] == rows.size - 1
        if rows.size == self.m:
            return self.X
        return self.X[rows[0] : rows[-1] + 1] if together else self.X[rows]

    @_once
    def rows(self, kind: str, group: Any = None) -> NDArray[np.intp]:
        """Return the indices of the samples of a kind.

        Raises
        ------
        DataError
            The samples have no groups, or none of them this one.
        """
        if group is not None:
            return members(self.groups, kind, group, self.rows(kind))
        if kind == "signed":
            return np.arange(self.m)
        return np.flatnonzero(self.y == (1.0 if kind == "pos" else -1.0))

    @_once
    def signs(self, kind: str, group: Any = None) -> Vec | None:
        """Return the factors y_i of `signed`; None for one class."""
        if kind != "signed":
            return None
        return self.y if group is None else self.y[self.rows(kind, group)]

    @_once
    def samples(self, kind: str, group: Any = None) -> LinearMap:
        """Return the map `q -> sum q_i x_i` over `pos` or `neg`, `q -> sum q_i y_i x_i` over `signed`."""
        if isinstance(self.space, GramSpace):
            units: Any = sparse.eye_array(self.m, format="csr")
            units = units[self.rows(kind, group)]
            return RowMap(units, self.signs(kind, group))
        return SampleMap(self._matrix(kind, group), self.signs(kind, group))

    def _counts(self, kind: str, group: Any) -> Vec | None:
        """Return the weights of samples in means and covariances; None if they are equal."""
        one_class = kind != "signed" and self.weighing.samples is None
        return None if one_class else self.copies(kind, group)

    @_once
    def mean(self, kind: str, group: Any = None) -> Vec:
        """Return the weighted mean of the samples, (n,); exact for constant features of a dense table."""
        if self.moments is not None:
            return self.moments[kind, group].mean
        count, counts = self.rows(kind, group).size, self._counts(kind, group)
        q = np.full(count, 1.0 / count) if counts is None else counts / counts.sum()
        samples = self.samples(kind, group)
        mean = samples.matvec(q)
        if isinstance(samples, SampleMap) and kind != "signed" and not sparse.issparse(samples.X):
            mean = exact_mean(samples.X, mean)
        return mean

    @_once
    def covariance_factor(self, kind: str, group: Any = None) -> LinearMap:
        """Return F with F F' the 1/m covariance of the samples by their weights, without forming it.

        Raises
        ------
        DataError
            Squares of the entries are no numbers of double precision.
        """
        if self.moments is not None:
            return MatrixMap(psd_root(self.covariance(kind, group)))
        refuse_squares(self.scale, "covariances")
        X, signs = self._matrix(kind, group), self.signs(kind, group)
        if signs is not None:
            signs = signs[:, None]
            X = sparse.csr_matrix(X.multiply(signs)) if sparse.issparse(X) else X * signs
        return centered_map(X, self.mean(kind, group), self._counts(kind, group))

    @_once
    def covariance(self, kind: str, group: Any = None) -> NDArray[np.float64]:
        """Return the 1/m covariance, dense (n, n); exactly 0 for a feature that varies by rounding only."""
        if self.moments is not None:
            return self.moments[kind, group].covariance
        F = self.covariance_factor(kind, group)
        return without_constant(F.weighted_gram(np.ones(F.shape[1])), self.mean(kind, group))

    def check_unchanged(self) -> None:
        """Raise `DataError` if the samples were changed in place since they were bound."""
        if self.seal is not None:
            self.seal.check()

    @contextlib.contextmanager
    def unchecked(self) -> Iterator[None]:
        """Skip the checksum of the samples within this context."""
        if self.seal is None:
            yield
            return
        self.seal.unchecked = True
        try:
            yield
        finally:
            self.seal.unchecked = False

    @contextlib.contextmanager
    def products(self) -> Iterator[None]:
        """Keep the products of the samples with vectors within this context."""
        # a list at once: another thread may add to the cache
        cached = [] if self.stored < _SMALL else list(self._cache.values())
        maps = [A for A in cached if isinstance(A, SampleMap)]
        for A in maps:
            A.recent = {}
        try:
            yield
        finally:
            for A in maps:
                A.recent = None

    @contextlib.contextmanager
    def overflow_guard(self) -> Iterator[None]:
        """Turn errors from powers of very large or small entries into `SolverError`, and hide warnings; no
        effect on entries of ordinary size."""
        if 1e-100 < self.scale < 1e100:
            yield
            return
        try:
            with np.errstate(all="ignore"):
                yield
        except UCMError:
            raise
        except (ArithmeticError, ValueError) as error:  # of NumPy's linear algebra, too
            raise SolverError(
                f"powers of features of size {self.scale:.3g} over- or underflow ({error}); scale "
                "the features"
            ) from error

    @functools.cached_property
    def stored(self) -> int:
        """The number of stored entries of X."""
        return int(self.table.nnz) if sparse.issparse(self.table) else self.table.size

    @functools.cached_property
    def sizes(self) -> Vec:
        """The largest absolute entry of each feature, (n,), 1 where all are zero."""
        top = abs(self.X).max(axis=0)
        sizes = np.asarray(top.toarray() if sparse.issparse(top) else top).ravel()
        return np.where(sizes > 0.0, sizes, 1.0)

    @functools.cached_property
    def scale(self) -> float:
        """The largest absolute entry of X (1 when all are zero), or the largest norm of a sample."""
        if isinstance(self.space, GramSpace):
            return self.space.scale
        if self.seal is not None and self.seal.X is self.table:
            top = self.seal.largest
        else:
            entries = self.X.data if sparse.issparse(self.X) else self.X
            top = max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))
        return top if top > 0.0 else 1.0


def known_by(moments: Mapping[str, Moments]) -> Data:
    """Return samples of which only the moments of "pos" and "neg" are known."""
    n = next(iter(moments.values())).mean.size
    by_kind = {(kind, None): of for kind, of in moments.items()}
    return Data(np.empty((0, n)), np.empty(0), moments=by_kind)


def bind(
    X: Any,
    y: Any,
    class_weight: Any = None,
    sample_weight: Any = None,
    subgroup: Any = None,
    pos_label: Any = None,
    *,
    square: bool = False,
) -> Data:
    """Validate samples, labels, weights and groups; samples of weight 0 are left out.

    Parameters
    ----------
    X : (m, n) array, data frame or sparse matrix
    y : (m,) labels of two classes
    class_weight, sample_weight, subgroup, pos_label : as in `ucm.compile`
    square : whether X holds inner products of the samples, so that its columns are samples too

    Raises
    ------
    DataError
        NaN or inf, no samples or features, lengths that differ, labels of more or less than two classes,
        weights that are none.
    ParameterError
        `class_weight` is none.
    """
    if isinstance(X, RowSource):
        raise DataError(
            f"X: expected samples in memory here, got rows read block by block, {X.m} x {X.n}; bring all "
            f"of them, {X.nbytes / 1e9:.3g} GB, with X, y = rows.gather()"
        )
    X = read(X)
    weights = read_weights(sample_weight, X.shape[0])
    label_column = np.asarray(y)
    y = label_column.ravel() if label_column.ndim == 2 and label_column.shape[1] == 1 else y
    values, labels = signs_of(vector("label", y, X.shape[0]), pos_label)
    groups = None if subgroup is None else read_groups(subgroup, values.size).copy()
    weighing = UNWEIGHTED
    if weights is not None or class_weight is not None:
        weighing = sample_weights_of(values, weights, class_weight, labels)
    if weighing.nonzero is not None:
        X, values = X[weighing.nonzero], values[weighing.nonzero]
        X = np.ascontiguousarray(X[:, weighing.nonzero]) if square else X
        groups = None if groups is None else groups[weighing.nonzero]
    seal = Fingerprint(X, values)
    if not seal.finite:
        refuse(bad_entry(X))
    if np.may_share_memory(values, label_column):  # the caller may change it
        values = values.copy()
    values.flags.writeable = False
    return Data(X, values, weighing, seal=seal, groups=groups)
