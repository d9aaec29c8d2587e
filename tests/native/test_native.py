"""The C library: each function against a different computation, refusals, building and loading."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
import os
import pkgutil
import platform
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import softmax, wrightomega
from threadpoolctl import ThreadpoolController

import ucm
from ucm import native
from ucm.native import library
from ucm.native.threads import blas_threads, in_parts, workers

NONE = np.empty(0)
ROOT = Path(ucm.__file__).resolve().parent.parent
SIZES = [1, 2, 3, 7, 8, 9, 64, 1000, 4096 * 4 + 1]


def by_bisection(v: np.ndarray, cap: float, mass: float) -> np.ndarray:
    """The projection on the capped simplex by bisection, relative to the largest entry."""
    u = v - v.max()
    low, high = u.min() - min(cap, mass) - mass, 0.0
    for _ in range(64):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.clip(u - middle, 0.0, cap).sum() > mass else (low, middle)
    return np.clip(u - low, 0.0, cap)


# --- calls with the arrays that the caller allocates -------------------------------------------------
def project_capped(v: np.ndarray, y: np.ndarray, pos: float, neg: float, out: np.ndarray) -> None:
    library.project_capped(v.size, v, y.size, y, pos, neg, out, np.empty(2 * v.size))


def project_ball_simplex(v: np.ndarray, y: np.ndarray, radius: float, limit: float, out: np.ndarray) -> list:
    found, work = np.empty(3), np.empty(2 * v.size)
    library.project_ball_simplex(v.size, v, y.size, y, radius, limit, out, found, work)
    return found.tolist()


def of_entropy(name: str, v: np.ndarray, y: np.ndarray, *numbers: float, out: np.ndarray) -> list:
    found = np.empty(4)
    getattr(library, name)(v.size, v, y.size, y, *numbers, out, found)
    return found.tolist()


def checksum(words: np.ndarray) -> tuple:
    found = np.empty(2, dtype=np.int64)
    (library.checksum_short if words.itemsize == 4 else library.checksum_long)(words.size, words, found)
    return tuple(found.tolist())


# --- the binding -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wrong",
    [
        np.ones(6)[::2], np.ones(3, "f4"), np.ones(3, ">f8"), np.ones(3, int), [1.0, 1.0, 1.0], None,
        np.ones(3, object), np.ma.ones(3)[::-1],
    ],
)  # fmt: skip
def test_an_array_of_another_type_or_layout_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"threshold: v must be a contiguous array of float64.*got"):
        library.threshold(3, wrong, 1.0, 1.0, np.empty(2), np.empty(3))


def test_an_output_that_cannot_be_written() -> None:
    root = np.empty(2)
    root.flags.writeable = False
    with pytest.raises(TypeError, match="threshold: root must be a contiguous, writable array"):
        library.threshold(3, np.ones(3), 1.0, 1.0, root, np.empty(3))
    v = np.ones(3)
    v.flags.writeable = False  # what is only read may be
    library.threshold(3, v, 1.0, 1.0, np.empty(2), np.empty(3))


def test_unknown_functions_and_missing_arguments_are_refused() -> None:
    with pytest.raises(AttributeError, match="no file of ucm/native exports a function nothing"):
        library.nothing
    with pytest.raises(TypeError, match="threshold takes 6 arguments, got 2"):
        library.threshold(3, np.ones(3))


@pytest.mark.skipif(not (ROOT / "build_native.py").exists(), reason="no checkout")
def test_every_declared_function_is_in_the_library() -> None:
    sources = "".join(f.read_text(encoding="utf-8") for f in (ROOT / "ucm/native").glob("*.c"))
    names = set(re.findall(r"^EXPORT [^(]*?(\w+)\(", sources, flags=re.M))
    assert {"threshold", "checksum_short", "solve_hulls", "smo"} <= names
    for name in names - {"built_from", "use_blas"}:  # which the binding itself calls
        assert callable(getattr(library, name))


# --- the capped simplex ----------------------------------------------------------------------------
@pytest.mark.parametrize("n", SIZES)
def test_the_capped_simplex_against_bisection(n: int) -> None:
    rng = np.random.default_rng(n)
    v = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3)
    v[rng.integers(0, n, n // 3)] = v[0]
    for cap in (1.0 / n, 1.5 / n, 3.0 / n, 0.4, np.inf):
        if cap * n < 1.0:
            continue
        out = np.empty(n)
        project_capped(v, NONE, cap, cap, out)
        assert_allclose(out, by_bisection(v, cap, 1.0), atol=1e-12 * max(1.0, np.abs(v).max()))
        ref, shift = native.threshold(v, cap, 1.0)
        assert_allclose(np.clip((v - ref) - shift, 0.0, cap), out, atol=0)
        project_capped(v.copy(), NONE, cap, cap, v_ := v.copy())
        assert_allclose(v_, out, atol=0)


@pytest.mark.parametrize("n", [2, 9, 1000])
def test_two_classes_have_half_the_mass_each(n: int) -> None:
    rng = np.random.default_rng(n)
    v, y = rng.standard_normal(n), np.where(np.arange(n) < max(1, n // 3), 1.0, -1.0)
    out = np.empty(n)
    project_capped(v, y, 2.0 / n, 0.6, out)
    for sign, cap in ((1.0, 2.0 / n), (-1.0, 0.6)):
        assert_allclose(out[y == sign], by_bisection(v[y == sign], cap, 0.5), atol=1e-14)


def test_far_entries_keep_their_differences() -> None:
    """`(v - ref) - shift` near 1e12, where one double for theta would be off by 1e-4."""
    v = 1e12 + np.array([0.0, 0.25, 0.5, -3.0])
    out = np.empty(4)
    project_capped(v, NONE, np.inf, np.inf, out)
    assert_allclose(out, by_bisection(v - 1e12, np.inf, 1.0), atol=1e-15)


@pytest.mark.parametrize("n", [3, 40])
def test_random_entries_far_from_0_keep_their_differences(n: int) -> None:
    """Doubles near 1e12 are 1e-4 apart, with the root between them; one entry is at 0, far from the root."""
    rng = np.random.default_rng(n)
    for cap in (1.5 / n, 0.7, np.inf) * 5:
        steps = rng.integers(0, rng.choice([9, 900, 90_000]), n) * 2.0**-13
        out = np.empty(n + 1)
        project_capped(np.r_[0.0, 1e12 + steps], NONE, cap, cap, out)
        assert_allclose(out, np.r_[0.0, by_bisection(steps, cap, 1.0)], atol=1e-14 * max(1.0, steps.max()))


def test_empty_arrays_nan_and_inf() -> None:
    assert native.threshold(NONE, 1.0, 1.0) == (-np.inf, 0.0)
    project_capped(NONE, NONE, 1.0, 1.0, NONE.copy())
    out = np.empty(3)
    for bad in (np.nan, np.inf, -np.inf):  # ends, and leaves NaN where it was
        project_capped(np.array([1.0, bad, 2.0]), NONE, np.inf, np.inf, out)
    project_capped(np.array([1.0, np.nan, 2.0]), NONE, np.inf, np.inf, out)
    assert not np.isfinite(out).all() or abs(out.sum() - 1.0) < 1e-12


# --- the simplex in balls --------------------------------------------------------------------------
def halves(rng: np.random.Generator, n: int) -> np.ndarray:
    """Signs of two classes, neither empty."""
    return np.where(np.arange(n) < max(1, n // 3), 1.0, -1.0)[rng.permutation(n)]


def simplex(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The projection on the simplex, or on a half in each class, by bisection."""
    if not y.size:
        return by_bisection(v, np.inf, 1.0)
    q = np.empty_like(v)
    for sign in (1.0, -1.0):
        q[y == sign] = by_bisection(v[y == sign], np.inf, 0.5)
    return q


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("n", [2, 9, 300])
def test_the_simplex_in_a_ball_against_bisection_in_t(n: int, labelled: bool) -> None:
    rng = np.random.default_rng(n)
    v, y = rng.standard_normal(n), halves(rng, n) if labelled else NONE
    least = np.linalg.norm(simplex(0.0 * v, y))
    most = np.linalg.norm(simplex(1e6 * v, y))
    for radius in (least + 1e-3 * (most - least), 0.5 * (least + most), 2.0):
        for limit in (1.0, np.inf):
            low, high = 0.0, min(limit, 1e6)
            for _ in range(64):
                t = 0.5 * (low + high)
                inside = np.linalg.norm(simplex(t * v, y)) <= radius
                low, high = (t, high) if inside else (low, t)
            out = np.empty(n)
            t, *tau = project_ball_simplex(v, y, radius, limit, out)
            assert_allclose(out, simplex(low * v, y), atol=1e-6)
            assert t == pytest.approx(low, rel=1e-6) or t > 1e5
            if 0.0 < t < 1e5:
                where = np.array(tau)[np.where(y > 0.0, 0, 1)] if labelled else tau[0]
                assert_allclose(out, np.maximum(t * (v - where), 0.0), atol=1e-12 * max(1.0, t))
    one = np.empty(1)
    assert project_ball_simplex(np.ones(1), NONE, 2.0, 1.0, one)[0] == 1.0 and one[0] == 1.0
    two = np.empty(2)  # the ball does not cut, and one entry is 0
    assert project_ball_simplex(np.array([1.5, 0.0]), NONE, 2.0, 1.0, two)[0] == 1.0
    assert two.tolist() == [1.0, 0.0]
    for unit, limit in ((1e200, 1.0), (1e200, np.inf), (1e-200, np.inf)):  # squares over- or underflow
        assert np.isnan(
            project_ball_simplex(unit * np.array([1.0, 0.0, -1.0]), NONE, 0.8, limit, np.empty(3))[0]
        )
    project_ball_simplex(NONE, NONE, 1.0, 1.0, NONE.copy())
    for bad in (np.nan, np.inf):  # ends
        project_ball_simplex(np.array([1.0, bad, 2.0]), NONE, 0.8, 1.0, np.empty(3))


@pytest.mark.parametrize(
    ("v", "y", "expected"),
    [
        ([5.0], [], [1.0]),
        ([3.0, 1.0, 3.0], [], [0.5, 0.0, 0.5]),
        ([3.0, 1.0, 9.0], [1.0, 1.0, -1.0], [0.5, 0.0, 0.5]),
        ([1.0, 3.0, 3.0, 9.0, 2.0], [1.0, 1.0, 1.0, -1.0, -1.0], [0.0, 0.25, 0.25, 0.5, 0.0]),
    ],
)
def test_a_ball_around_the_simplex_has_its_largest_entries_alone(v: list, y: list, expected: list) -> None:
    out = np.empty(len(v))
    t, *_ = project_ball_simplex(np.array(v), np.array(y), 2.0, np.inf, out)
    assert t == np.inf and out.tolist() == expected


@pytest.mark.parametrize("n", [5, 300])
def test_entries_that_differ_by_rounding_keep_the_simplex_and_the_ball(n: int) -> None:
    v = 1.0 + 1e-12 * np.random.default_rng(n).standard_normal(n)
    out, radius = np.empty(n), 1.4 / np.sqrt(n)
    project_ball_simplex(v, NONE, radius, np.inf, out)
    assert out.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.linalg.norm(out) == pytest.approx(radius, rel=1e-9)


def entropy(q: np.ndarray) -> float:
    return float(np.sum(q * np.log(np.maximum(q.size * q, 1e-300))))


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("n", [2, 9, 40])
def test_the_simplex_in_an_entropy_ball_against_nested_roots(n: int, labelled: bool) -> None:
    rng = np.random.default_rng(n)
    v, y = 0.3 * rng.standard_normal(n), halves(rng, n) if labelled else NONE
    parts = [y > 0, y < 0] if labelled else [np.ones(n, bool)]
    mass = 1.0 / len(parts)
    uniform = sum(p * mass / p.sum() for p in parts)
    least = entropy(uniform)
    if np.ptp(v) == 0.0:
        return
    radius = least + 0.02

    def q_of(lam: float) -> np.ndarray:
        q = np.zeros(n)
        for p in parts:

            def excess(theta: float, p: np.ndarray = p) -> float:
                q[p] = lam * wrightomega((v[p] - theta) / lam - 1.0 - np.log(n * lam)).real
                return q[p].sum() - mass

            brentq(excess, v[p].min() - 50.0 - 50 * lam, v[p].max() + 50.0 + 50 * lam, xtol=1e-15)
        return q

    out = np.empty(n)
    if entropy(q_of(1e-4)) > radius:
        lam = brentq(lambda x: entropy(q_of(x)) - radius, 1e-4, 1e4, xtol=1e-14, rtol=1e-13)
        found, *thetas, good = of_entropy("project_entropy", v, y, radius, least, 1.0 / n, out=out)
        assert good == 1.0 and found == pytest.approx(lam, rel=1e-7)
        assert_allclose(out, q_of(lam), atol=1e-9)
        for p, theta in zip(parts, thetas, strict=False):  # the stationarity of each class
            q = out[p & (out > 0.0)]
            assert_allclose(q + found * (np.log(n * q) + 1.0), v[p & (out > 0.0)] - theta, atol=1e-9)

    def soft(lam: float) -> np.ndarray:
        q = np.zeros(n)
        for p in parts:
            q[p] = mass * softmax(v[p] / lam)
        return q

    if entropy(soft(1e-3)) > radius:
        lam = brentq(lambda x: entropy(soft(x)) - radius, 1e-3, 1e4, rtol=1e-14)
        found, *_ = of_entropy("support_entropy", v, y, radius, least, out=out)
        assert found == pytest.approx(lam, rel=1e-7)
        assert_allclose(out, soft(lam), atol=1e-10)


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_entries_of_every_size_of_an_entropy_ball_are_exact(scale: float) -> None:
    """The Wright function has three starts, and is exp(z) below -40: each entry is exact by itself."""
    v, out = np.linspace(-scale, scale, 200), np.empty(200)
    for radius in (0.5, 1.0, 2.0):
        lam, theta, _, good = of_entropy("project_entropy", v, NONE, radius, 0.0, scale, out=out)
        assert good == 1.0 and entropy(out) == pytest.approx(radius, abs=1e-12)
        exact = lam * wrightomega((v - theta) / lam - 1.0 - np.log(200 * lam)).real
        assert_allclose(out, exact, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("share", [1e-10, 1e-4, 0.5, 0.999, 1.0 - 1e-9])
@pytest.mark.parametrize("labelled", [False, True])
def test_the_support_of_an_entropy_ball_of_any_size(labelled: bool, share: float) -> None:
    """The two largest entries differ by 1e-6 of the range of g, and lam is far from it in the largest balls.

    The entropy of the answer is the radius, and its multipliers are stationary.
    """
    g = np.array([1.0, 0.0, 1.0 - 1e-6, 0.3, 1.0 - 2e-6, 0.3 + 1e-6])
    y = np.array([1.0, 1.0, 1.0, -1.0, 1.0, -1.0]) if labelled else NONE
    parts = [y > 0, y < 0] if labelled else [np.ones(6, bool)]
    mass = 1.0 / len(parts)
    least, most = (sum(mass * np.log(6 * mass / k) for k in sizes) for sizes in (
        [p.sum() for p in parts], [1 for _ in parts]))  # fmt: skip
    radius, out = float(least + share * (most - least)), np.empty(6)
    lam, *thetas, _ = of_entropy("support_entropy", g, y, radius, float(least), out=out)
    assert entropy(out) == pytest.approx(radius, abs=1e-13)
    for p, theta in zip(parts, thetas, strict=False):
        q = out[p & (out > 0.0)]
        assert_allclose(out[p], mass * softmax((g[p] - g[p].max()) / lam), rtol=1e-9, atol=1e-300)
        assert_allclose(lam * (np.log(6 * q) + 1.0), g[p & (out > 0.0)] - theta, atol=1e-12 * max(1.0, lam))


def test_entropy_balls_of_nothing_and_of_nan() -> None:
    for v in (NONE, np.array([np.nan, 1.0]), np.array([np.inf, 1.0])):
        of_entropy("project_entropy", v, NONE, 0.1, 0.0, 0.5, out=np.empty(v.size))
        of_entropy("support_entropy", v, NONE, 0.1, 0.0, out=np.empty(v.size))
    nan = np.array([np.nan, 1.0])
    assert of_entropy("project_entropy", nan, NONE, 0.1, 0.0, 0.5, out=np.empty(2))[3] == 0.0


# --- checksums -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize("n", [0, 1, 2, 9, 1000])
def test_checksums_against_whole_numbers(n: int, kind: type) -> None:
    rng = np.random.default_rng(n)
    limits = np.iinfo(kind)
    words = rng.integers(limits.min, limits.max, n, dtype=kind)
    total = 0
    for i, word in enumerate(words.tolist()):
        moved = (word + i * 0x5851F42D4C957F2D) % 2**64
        total += word + (moved % 2**32) * (moved >> 32)
    total = (total + 2**63) % 2**64 - 2**63
    top = max([0, *(w & (2**63 - 1) for w in words.tolist())])
    assert checksum(words) == (total, top)
    if n > 1:
        assert checksum(words[::-1].copy())[0] != total


# --- kernels ---------------------------------------------------------------------------------------
def test_no_rbf_value_exceeds_1_by_the_rounding_of_squares() -> None:
    G = np.array([[1.0 + 1e-12, 1.0, -1.0]])
    library.rbf_values(1, 3, G, np.ones(1), np.ones(3), 0.5)
    assert_allclose(G, [[1.0, 1.0, np.exp(-2.0)]], rtol=1e-15)
    assert G.max() == 1.0


# --- sums of outer products ------------------------------------------------------------------------
@pytest.mark.parametrize(("m", "n"), [(0, 3), (1, 1), (30, 8)])
def test_outer_products_of_csr_rows_against_numpy(m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    A = sparse.csr_array(rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.4))
    indices, starts = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    d, H, s = rng.standard_normal(m), np.zeros((n, n)), np.zeros(n)
    d[: m // 3], d[m // 3 : m // 2] = 1.0, 0.0
    library.add_outer(m, A.data, indices, starts, d, n, H, s)
    dense = A.toarray()
    full = H + H.T - np.diag(np.diag(H))
    assert_allclose(full, dense.T @ (d[:, None] * dense), atol=1e-13)
    assert_allclose(s, d @ dense, atol=1e-13)
    v, out = rng.standard_normal(n), np.ones(n)
    total = library.add_gram_product(m, A.data, indices, starts, d, v, out)
    assert_allclose(out, 1.0 + dense.T @ (d * (dense @ v)), atol=1e-13)
    assert_allclose(total, d @ (dense @ v), atol=1e-13)


# --- building and loading --------------------------------------------------------------------------
def test_an_import_loads_no_library() -> None:
    code = (
        "import sys, ucm, ucm.cli\n"
        "print('ucm.native._declarations' in sys.modules, 'scipy.linalg.cython_blas' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert told.stdout == "False False\n", told.stderr


def test_the_library_is_not_taken_for_a_module() -> None:
    assert "_kernels" not in {m.name for m in pkgutil.iter_modules(native.__path__)}


def imported_from(folder: Path, **environment: str) -> str:
    """What a fresh process says that loads the library of a copy: nothing where it loads."""
    code = "import ucm.native; ucm.native.library.threshold"
    env = {**os.environ, "PYTHONPATH": str(folder), **environment}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True)
    return done.stderr.strip().rpartition("\n")[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout with nothing but what the binding needs."""
    (tmp_path / "ucm").mkdir()
    (tmp_path / "ucm/__init__.py").touch()
    shutil.copytree(
        ROOT / "ucm/native",
        tmp_path / "ucm/native",
        ignore=shutil.ignore_patterns("__pycache__", ".build*"),
    )
    return tmp_path  # fmt: skip


def test_a_library_that_is_not_built(copy: Path) -> None:
    assert imported_from(copy) == ""
    (copy / "ucm/native/_declarations.py").unlink()
    told = imported_from(copy)
    assert "the C library of ucm is not built: run `pip install -e .`" in told


def test_a_library_of_another_machine(copy: Path) -> None:
    file = copy / "ucm/native/_kernels.bin"
    file.write_bytes(b"\0" * 4096)  # no header of any system
    told = imported_from(copy)
    assert "_kernels.bin does not load on this machine" in told and "Install ucm here again" in told
    file.unlink()
    assert "does not load on this machine" in imported_from(copy)


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not Path("/proc/cpuinfo").exists(), reason="flags as of Linux on x86-64"
)
def test_avx2_is_found_where_the_system_lists_it() -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    assert library.has_avx2() == ({"avx2", "fma", "bmi1", "bmi2"} <= set(flags))


def test_a_processor_without_avx2(copy: Path) -> None:
    """The baseline is loaded where there is no library for AVX2; the answers differ by rounding."""
    (copy / "ucm/native/_kernels_avx2.bin").unlink(missing_ok=True)
    code = (
        "import numpy as np; from ucm.native import fill_to_mass\n"
        "print(repr(fill_to_mass(np.cos(np.arange(99.)), 0.1, 3.0)[0].tolist()))"
    )
    env = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = native.fill_to_mass(np.cos(np.arange(99.0)), 0.1, 3.0)[0]
    assert_allclose([float(x) for x in done.stdout.strip(" []\n").split(",")], expected, atol=1e-14)


def test_sources_that_are_newer_than_the_library(copy: Path) -> None:
    if not list((copy / "ucm/native").glob("*.c")):
        pytest.skip("an installed wheel has no C sources")
    with open(copy / "ucm/native/capped.c", "a", encoding="utf-8") as file:
        file.write("\n/* changed */\n")
    told = imported_from(copy)
    assert "the C sources of ucm differ" in told and "pip install -e ." in told


def builds(copy: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "build_native.py", copy)
    env = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, str(copy / "build_native.py")], env=env, capture_output=True, text=True
    )


@pytest.mark.skipif(not (ROOT / "build_native.py").exists(), reason="no checkout")
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"CC": "/nowhere/cc"}, "CC=/nowhere/cc does not compile"),
        pytest.param(
            {"CC": "true"},
            "does not compile and link two lines.*wrote no program",
            marks=pytest.mark.skipif(os.name == "nt", reason="Windows has no command `true`"),
        ),
        ({"CC": "cl"}, "A driver in the style of gcc is needed"),
        (
            {"CFLAGS": "-fno-such-flag-at-all"},
            "the C compiler fails at .*no-such-flag|no C compiler",
        ),
        ({"UCM_TARGET": "pdp11"}, "UCM_TARGET=pdp11 is unknown"),
    ],
)
def test_a_build_that_fails_says_why(copy: Path, environment: dict[str, str], message: str) -> None:
    done = builds(copy, **environment)
    assert done.returncode == 1
    assert re.search(message, done.stderr, re.S), done.stderr


@pytest.mark.skipif(
    shutil.which("cc") is None or not (ROOT / "build_native.py").exists(), reason="no compiler"
)
def test_an_undeclared_function_is_named(copy: Path) -> None:
    """Old compilers only warn, which is printed; gcc from 14 on, clang from 16 on and -Werror refuse."""
    with open(copy / "ucm/native/capped.c", "a", encoding="utf-8") as file:
        file.write("\nint caller(void);\nint caller(void) { return undeclared(); }\n")
    assert "undeclared" in builds(copy, CFLAGS="-O0").stderr
    refused = builds(copy, CFLAGS="-O0 -Werror")
    assert refused.returncode == 1 and "fails at capped.c" in refused.stderr, refused.stderr


@pytest.mark.skipif(not (ROOT / "build_native.py").exists(), reason="no checkout")
def test_no_compiler_at_all(copy: Path) -> None:
    done = builds(copy, PATH="", CC="")
    if done.returncode == 0:
        pytest.skip("ziglang is installed here and compiles")
    assert "no C compiler" in done.stderr and "ziglang" in done.stderr


@pytest.mark.skipif(
    shutil.which("cc") is None or not (ROOT / "build_native.py").exists(), reason="no compiler"
)
def test_two_processes_build_at_once(copy: Path) -> None:
    shutil.copy(ROOT / "build_native.py", copy)
    with open(copy / "ucm/native/capped.c", "a", encoding="utf-8") as file:
        file.write("\n/* changed */\n")
    command = [sys.executable, str(copy / "build_native.py")]
    fast = os.environ | {"CFLAGS": "-O0"}
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, env=fast) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert imported_from(copy) == "" and not list((copy / "ucm/native").glob(".build*"))


def test_the_mass_of_many_entries_far_from_each_other() -> None:
    """The rest is solved relative to the entry next to the root."""
    rng = np.random.default_rng(118)
    n, far = int(10.0 ** rng.uniform(1.0, 4.6)), 10.0 ** rng.uniform(0.0, 18.0)
    v = rng.standard_normal(n) * 10.0 ** rng.uniform(-6.0, 8.0) + far * rng.choice([0, 1, -1], n)
    cap, mass = 0.0015063530288921452, 1.0389341828021552
    assert n == 22412 and far > 7e16
    ref, shift = native.threshold(v, cap, mass)
    assert math.fsum(np.clip((v - ref) - shift, 0.0, cap)) == pytest.approx(mass, rel=5e-13)


@pytest.mark.parametrize("n", [1, 2, 9, 500])
def test_filling_to_a_mass_against_counting_and_one_entry_after_another(n: int) -> None:
    rng = np.random.default_rng(n)
    g, each = rng.standard_normal(n), rng.uniform(0.1, 1.0, n)
    g[rng.integers(0, n, n // 2)] = g[0]
    for caps in (each, 1.0 / n, np.inf):
        c = np.zeros(n) + caps
        for part in (0.01, 0.4, 1.0):
            mass = part * c.sum() if c.sum() < np.inf else part
            q, height, (low, high) = native.fill_to_mass(g, caps, mass)
            assert high == max(x for x in g if c[g >= x].sum() >= mass * (1.0 - 1e-12))
            full = c[g >= high].sum() <= mass * (1.0 + 1e-12)
            assert low == (g[g < high].max(initial=-np.inf) if full else high)
            left, top = mass, 0.0
            for k in np.argsort(-g):
                top, left = top + min(c[k], left) * g[k], left - min(c[k], left)
            assert height == pytest.approx(top, abs=1e-12) == pytest.approx(float(q @ g), abs=1e-12)
            assert q.sum() == pytest.approx(mass, rel=1e-12)
            assert (q >= 0.0).all() and (q <= c * (1.0 + 1e-12)).all()
            share = (q / np.minimum(c, 1.0))[g == high]
            assert_allclose(share, share[0], rtol=1e-12)
    q, height, ends = native.fill_to_mass(NONE, NONE, 1.0)
    assert q.size == 0 and height == 0.0 and np.isnan(ends[1])


def test_solves_that_overlap_leave_the_threads_of_blas() -> None:
    """The first to enter leaves before the second: the limit ends with the last."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        first, second = blas_threads(10, 10**6), blas_threads(10, 10**6)

        def threads() -> list[int]:
            return [p["num_threads"] for p in ThreadpoolController().info() if p["user_api"] == "blas"]

        before = threads()
        counts = []
        for step in (first.__enter__, second.__enter__, first.__exit__, second.__exit__):
            step(*(None, None, None) if step.__name__ == "__exit__" else ())
            counts.append(threads())
        one = [1] * len(before)
        assert counts == [one, one, one, before] and before != one


def _threads() -> list[int]:
    """The threads of every BLAS that is loaded; some have one only."""
    return [p["num_threads"] for p in ThreadpoolController().info() if p["user_api"] == "blas"]


def test_threads_take_turns_with_the_threads_of_blas() -> None:
    """One thread sets the limit, which lifts when another leaves last; the next limit is of that thread."""
    entered, left = threading.Event(), threading.Event()

    def enter() -> None:
        with blas_threads(10, 10**6):
            entered.set()
            left.wait(30.0)
        seen.append(_threads())
        with blas_threads(10, 10**6):
            seen.append(_threads())

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        seen, two = [], _threads()
        with blas_threads(10, 10**6):
            other = threading.Thread(target=enter)
            other.start()
            entered.wait(30.0)
        seen.append(_threads())
        left.set()
        other.join()
        one = [1] * len(two)
        assert 2 in two and [*seen, _threads()] == [one, two, one, two]


def test_compiled_work_takes_the_threads_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as before a limit of ours, one where BLAS may take one, and one inside of joblib."""
    monkeypatch.setattr("ucm.native.threads.processors", lambda: 2)
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        assert workers() == 2
        with blas_threads(10, 10**6):
            assert workers() == 2
        with parallel_config("threading", n_jobs=2):
            assert Parallel()(delayed(workers)() for _ in range(2)) == [1, 1]
        names: list[str] = []
        in_parts(lambda _: names.append(threading.current_thread().name), [slice(0, 1)] * 4, large=True)
        assert len(names) == 4 and threading.current_thread().name not in names
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        assert workers() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("here", [False, True], ids=["another thread is inside", "this thread is inside"])
def test_a_forked_child_has_the_threads_of_blas(here: bool) -> None:
    """The limit of a thread that stays in the parent ends at once, that of the forking one when it leaves."""

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        context, entered, done = blas_threads(10, 10**6), threading.Event(), threading.Event()
        two = _threads()
        one = [1] * len(two)

        def enter() -> None:
            with context:
                entered.set()
                done.wait(30.0)

        other = threading.Thread(target=enter)
        if here:
            context.__enter__()
        else:
            other.start()
            entered.wait(30.0)
        child = os.fork()
        if child == 0:
            inside = _threads()
            if here:
                context.__exit__(None, None, None)
            os._exit(0 if inside == (one if here else two) and _threads() == two else 1)
        status = os.waitpid(child, 0)[1]
        if here:
            context.__exit__(None, None, None)
        else:
            done.set()
            other.join()
        assert status == 0 and _threads() == two
