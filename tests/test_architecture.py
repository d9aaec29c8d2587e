"""The rules of the code's structure: who may import whom, and what stays lazy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import ucm.solvers
from ucm import neg, pos

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(ucm.__file__).resolve().parent  # an installed one, outside of the checkout
FILES = sorted(PACKAGE.rglob("*.py"))

# Low to high. A module imports only from its own floor or a lower one, for types too.
FLOORS = [
    {"errors", "native"},
    {"data"},
    {"language"},
    {"forms"},
    {"numerics"},
    {"evidence"},
    {"solvers"},
    {"ranges", "export"},
    {"compiler"},
    {"audits"},
    {"estimators", "testing", ""},  # and the package itself: the public names
    {"plot"},
    {"cli", "extend", "__main__"},
]
LOOSE = {"__init__.py", "__main__.py", "errors.py", "extend.py"}
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}
LAZY = {"cvxpy", "matplotlib", "sklearn"}
# What `from ucm import x` may mean below the floor of the package itself: nothing but a module.
MODULES = {"ucm." + ".".join(f.relative_to(PACKAGE).with_suffix("").parts) for f in FILES}
MODULES = {name.removesuffix(".__init__") for name in MODULES} | {"ucm"}


def place(file: Path) -> str:
    """The path of a module from the folder of the package on."""
    return str(file.relative_to(PACKAGE.parent))


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit(module: str) -> str:
    """The part of the package a module belongs to: `ucm.domains.box` -> `domains`."""
    return module.split(".")[1] if "." in module else ""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(
    tree: ast.AST, inside: bool = False, typing: bool = False
) -> Iterator[tuple[ast.stmt, str, bool, bool]]:
    """(statement, imported module, whether inside a function, whether for types only)."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and is_type_checking(node):
            yield from imports(ast.Module(node.body, []), inside, True)
            yield from imports(ast.Module(node.orelse, []), inside, typing)
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield node, name.name, inside, typing
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for name in node.names:
                full = f"{base}.{name.name}"
                yield node, full if full in MODULES else base, inside, typing
        else:
            deeper = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports(node, inside or deeper, typing)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def internal(module: str) -> bool:
    return module == "ucm" or module.startswith("ucm.")


def statements(file: Path) -> Iterator[tuple[str, str, ast.stmt, str, bool, bool]]:
    """The imports of a file: where it stands, its module, and what `imports` yields."""
    here = module_name(file)
    for node, module, inside, typing in imports(tree_of(file)):
        yield f"{place(file)}:{node.lineno}: {module}", here, node, module, inside, typing


@cache
def all_imports() -> list[tuple[str, str, ast.stmt, str, bool, bool]]:
    return [one for file in FILES for one in statements(file)]


def test_a_file_belongs_to_a_floor() -> None:
    assert [str(file) for file in FILES if unit(module_name(file)) not in LEVEL] == []


def test_a_module_imports_no_higher_floor() -> None:
    assert [
        where
        for where, here, _, module, _, _ in all_imports()
        if internal(module) and LEVEL[unit(module)] > LEVEL[unit(here)]
    ] == []


def test_no_relative_import_and_none_of_ucm_inside_a_function() -> None:
    assert [
        where
        for where, _, node, module, inside, _ in all_imports()
        if (isinstance(node, ast.ImportFrom) and node.level) or (inside and internal(module))
    ] == []


def test_who_imports_the_heavy_libraries() -> None:
    """The C library by one package, scikit-learn at the top of estimators only, the others in functions."""
    wrong = []
    for where, here, _, module, inside, typing in all_imports():
        top = module.split(".")[0]
        if typing:
            continue
        if top in {"_cffi_backend", "cffi", "ctypes"} and unit(here) != "native":
            wrong.append(where)
        if top == "sklearn" and not (unit(here) == "estimators" or inside):
            wrong.append(where)
        if top in {"cvxpy", "matplotlib"} and not inside:
            wrong.append(where)
    assert not wrong


def test_the_package_has_no_loose_module() -> None:
    assert {f.name for f in PACKAGE.glob("*.py")} == LOOSE


def test_domains_know_only_the_contracts_and_the_kernels() -> None:
    vectors = "ucm.language.statistics.affine"  # a vector of sizes is one
    entropy = "ucm.language.losses"  # the KL ball is the divergence ball of the exponential loss
    allowed = {"ucm.errors", "ucm.data.linear_map", "ucm.language", vectors, entropy}
    allowed |= {"ucm.language.domains"}
    for where, here, _, module, _, _ in all_imports():
        if here.startswith("ucm.language.domains") and internal(module) and unit(module) != "native":
            assert {module, module.rpartition(".")[0]} & allowed, where


def test_solvers_do_not_import_each_other() -> None:
    """What several share stands in a file without a solver."""
    homes = {vars(ucm.solvers)[name].__module__ for name in ucm.solvers.__all__}
    for where, here, _, module, _, _ in all_imports():
        if here.startswith("ucm.solvers."):  # ucm.solvers itself is the list of exports
            assert module == here or module not in homes, where


def test_a_solver_imports_no_certificate() -> None:
    """Nor a certificate a solver, by the floors: what both need stands below, in `numerics` and `forms`."""
    for file in (PACKAGE / "solvers").rglob("*.py"):
        for node, module, _, _ in imports(tree_of(file)):
            assert unit(module) != "evidence", f"{file.name}, line {node.lineno}"


def test_there_is_no_import_cycle() -> None:
    """Nor one of types, but for terms: the sum of a loss and a penalty is an objective, which holds both."""
    types = {(here, module) for _, here, _, module, _, typing in all_imports() if typing and internal(module)}
    assert types <= {("ucm.language.terms", "ucm.language.objective")}
    graph = {
        module_name(f): {m for _, m, _, typing in imports(tree_of(f)) if internal(m) and not typing}
        - {module_name(f)}
        for f in FILES
    }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done or module not in graph:
            return
        for other in sorted(graph[module]):
            visit(other, (*path, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_no_assert_guards_against_a_user_error() -> None:
    assert [
        f"{place(file)}:{node.lineno}"
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Assert)
    ] == []


def test_no_module_changes_the_filters_of_warnings() -> None:
    """They hold for all threads of the process."""
    words = re.compile("catch_warnings|filterwarnings|simplefilter|showwarning")
    assert [place(file) for file in FILES if words.search(file.read_text("utf-8"))] == []


def test_importing_ucm_loads_nothing_heavy() -> None:
    code = "import sys, ucm; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not LAZY & set(done.stdout.split())


def test_no_path_of_one_machine() -> None:
    """No file names a folder of the machine it was written on."""
    pattern = re.compile(r"(?<![\w./-])/(?:work|root|farm|tmp|home)/\w")
    folders = ["ucm", "tests", "docs", "examples", "benchmarks", ".ci"]
    files = [f for name in folders for f in (ROOT / name).rglob("*") if f.is_file()]
    files += [f for f in ROOT.iterdir() if f.is_file() and f.name != ".git"]  # of a worktree
    wrong = []
    for file in files:
        if "__pycache__" in file.parts:
            continue
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        wrong += [f"{file.relative_to(ROOT)}:{i}" for i, s in enumerate(lines, 1) if pattern.search(s)]
    assert not wrong


def test_a_solver_takes_the_form_of_its_type() -> None:
    for name in ucm.solvers.__all__:
        cls = vars(ucm.solvers)[name]
        form = get_type_hints(cls.solve)["form"]
        assert (get_args(form) or (form,)) == cls.takes, name


def calls(name: str) -> list[str]:
    """The files of the package with a call of a function or method of this name, one entry a call."""
    found = []
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Call):
                function = node.func
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                found += [str(file.relative_to(PACKAGE))] if called == name else []
    return found


def test_one_function_makes_certificates() -> None:
    assert calls("Certificate") == ["evidence/certificate.py"]


def test_a_plan_alone_builds_solutions() -> None:
    assert calls("Solution") == ["compiler/plan.py"]


def test_one_module_computes_the_lower_bound() -> None:
    """What certificates and stopping rules prove by conjugates of losses and penalties, `bound` computes."""
    proofs = {f for f in calls("conjugate") if not f.startswith(("language/", "testing/"))}
    # the heights of weights in balls (membership), and of 0 in `RowLosses`, which a `SumDual` has as its base
    hulls = {"evidence/rows.py", "compiler/out_of_core.py", "forms/out_of_core.py"}
    membership = {"ranges/lambda_max.py"}
    envelope = {"solvers/objective/prox_alm.py"}  # the augmented Lagrangian
    assert proofs - hulls - membership - envelope == {"forms/bound.py"}


# --- the way of a solve ---------------------------------------------------------------------------
SOLVES = [  # the files that a solve enters, and its changes of floor
    (ucm.models.nu_svm(0.3), 25, 142),
    (
        (ucm.Ellipsoid(pos.mean, pos.cov, 1.0) & ucm.Hull(pos)) - ucm.Hull(neg, weights=ucm.NormBall(0.2)),
        32,
        1027,
    ),
    (
        ucm.Ramp(1.0) + 0.5 * ucm.CappedL1(1.0),
        32,
        324,
    ),  # the fallback of its convex problems, what it refuses, and constraints, which become one
]


COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")


@pytest.mark.parametrize(("model", "most", "changes"), SOLVES, ids=["nu-SVM", "composition", "DCA"])
def test_a_solve_enters_few_files(model: Any, most: int, changes: int) -> None:
    """Whoever traces a solve reads these files; a change that adds to them needs a reason.

    The floor changes with each call of a function on another floor than the function called before. The body
    of a comprehension or of a generator expression belongs to its function: resuming it is no call.
    """
    X, y = ucm.datasets.load("breast_cancer")
    ucm.solve(model, X, y)
    entered: set[str] = set()
    floors = [""]

    def look(frame: Any, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE) and frame.f_code.co_name not in COMPREHENSIONS:
            entered.add(str(path.relative_to(PACKAGE).with_suffix("")))
            if floors[-1] != (floor := path.relative_to(PACKAGE).parts[0]):
                floors.append(floor)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        ucm.solve(model, X, y)
    finally:
        sys.setprofile(before)
    assert len(entered) <= most, sorted(entered)
    assert len(floors) - 2 <= changes


def test_the_architecture_page_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", text):
        assert (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file(), name
