"""The command line, run in this process; Ctrl-C and a closed pipe in one of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from typed import known

import ucm
import ucm.data.datasets
from ucm import cli
from ucm.cli import BLOCKS, commands, output, parser
from ucm.cli.named_model import model_names
from ucm.compiler.plan import Plan
from ucm.data.readers import SUFFIXES

Run = Callable[..., tuple[int, str, str]]
COMMAND = [sys.executable, "-c", "import sys; from ucm.cli import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file with a header, labels of text, named `kind`, in the last column."""
    X, y = ucm.datasets.load("wine")
    path = tmp_path_factory.mktemp("data") / "wine.csv"
    names = [f"f{j}" for j in range(X.shape[1])]
    rows = [[*map(repr, row.tolist()), "red" if s > 0 else "blue"] for row, s in zip(X, y)]
    path.write_text("\n".join(",".join(row) for row in [[*names, "kind"], *rows]))
    return path


@pytest.fixture(scope="module")
def wine_libsvm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = ucm.datasets.load("wine")
    path = tmp_path_factory.mktemp("data") / "wine.libsvm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status, standard output and standard error of `ucm ...`."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def pure_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


# --- demo -------------------------------------------------------------------------------------
def test_demo_prints_a_screen_and_writes_a_page(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One screen, and a page that loads nothing, with a picture of every declared set."""
    monkeypatch.setattr(commands, "DEMO_SETS", ("wine", "iris"))
    monkeypatch.setattr(commands, "DEMO_MODELS", commands.DEMO_MODELS[::2])
    status, out, err = run("demo", "--report", str(tmp_path / "demo.html"))
    assert status == 0
    models, sets = len(commands.DEMO_MODELS), len(commands.DEMO_SETS)
    steps = err.splitlines()
    assert len(steps) == models * sets + 1
    assert "wine, nu_svm: solve" in steps[0] and "pictures" in steps[-1]
    lines = out.replace(str(tmp_path), "").splitlines()
    assert len(lines) <= 12 + models * sets and max(map(len, lines)) <= 100  # 24 for all 12 rows
    for name in commands.DEMO_MODELS:
        assert len(re.findall(rf"\b{name}\b", out)) == sets
    assert "all agree" in out and f"{tmp_path / 'demo.html'}" in out
    assert "NO" not in out.split()
    assert not re.search(r"\d\.\d{7}", out), "a number is not rounded"
    shown = (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert shown.count("<img src='data:image/png;base64,") == models
    assert shown.count("Verification: agrees") == models * sets
    assert not re.search(r"(src|href)=['\"]https?:|<script|@import", shown)


def test_demo_as_json_has_a_row_for_each_model(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(commands, "DEMO_SETS", ("wine",))
    monkeypatch.setattr(commands, "DEMO_MODELS", commands.DEMO_MODELS[:2])
    status, out, _ = run("demo", "--json", "--report", tmp_path / "demo.html")
    answer = pure_json(out)
    assert status == 0 and "all agree" not in out
    assert "Verification: agrees" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert answer["agree"] is True
    assert [row["model"] for row in answer["rows"]] == list(commands.DEMO_MODELS)
    assert all(abs(row["gap"]) <= 1e-6 for row in answer["rows"])


def test_demo_fails_when_one_does_not_agree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "DEMO_SETS", ("wine",))
    monkeypatch.setattr(commands, "DEMO_MODELS", ("mm_fda",))
    honest = Plan.verify
    monkeypatch.setattr(Plan, "verify", lambda plan: replace(honest(plan), agrees=False))
    opened: list[str] = []
    monkeypatch.setattr(output.webbrowser, "open", lambda page: opened.append(page) is None)
    status, out, _ = run("demo", "--open")
    assert len(opened) == 1 and opened[0].startswith("file://") and opened[0].endswith(".html")
    assert status == 1
    assert "NOT all agree" in out


# --- models -----------------------------------------------------------------------------------
def test_models_lists_every_named_model(run: Run) -> None:
    status, out, _ = run("models")
    assert status == 0
    rows = pure_json(run("models", "--json")[1])
    assert [row["model"].partition("(")[0] for row in rows] == model_names()
    assert all(row["meaning"] for row in rows)
    for name in model_names():
        assert name in out


# --- fit --------------------------------------------------------------------------------------
def test_fit_reads_solves_and_verifies(run: Run, wine: Path) -> None:
    status, out, err = run("fit", wine, "--model", "mm_mpm", "--param", "kappa=0.4", "--verify")
    assert (status, err) == (0, "")
    assert "kappa = 0.4 (given)" in out
    assert "optimal" in out
    assert "blue, red" in out


def test_fit_says_who_chose_a_parameter(run: Run, wine: Path) -> None:
    out = run("fit", wine, "--model", "nu_svm")[1]
    assert re.search(r"nu = [\d.]+ \(chosen: at 50% of its admissible interval\)", out)
    out = run("fit", wine, "--model", "psvm", "--param", "C=2")[1]
    assert "C = 2 (given)" in out and "multiplications" not in out


def test_fit_as_json_holds_the_answer(run: Run, wine: Path, wine_libsvm: Path) -> None:
    answers = []
    for file in (wine, wine_libsvm):
        status, out, _ = run(
            "fit", file, "--model", "nu_svm", "--param", "nu=0.3", "--verify", "--json", "--verbose"
        )
        assert status == 0
        answers.append(pure_json(out))
    first, second = answers
    X, y = ucm.datasets.load("wine")
    direct = ucm.solve(ucm.models.nu_svm(0.3), X, y)
    assert first["labels"] == {"-1": "blue", "+1": "red"}
    assert second["labels"] == {"-1": "-1", "+1": "1"}
    assert first["parameters"] == {"nu": 0.3}
    assert first["verification"]["agrees"] is True
    assert ucm.from_json(json.dumps(first["declaration"])) == ucm.models.nu_svm(0.3)
    for answer in answers:
        assert answer["objective"] == pytest.approx(direct.objective, rel=1e-5)
        np.testing.assert_allclose(answer["w"], direct.w, atol=1e-3)
        decided = np.sign(X @ np.array(answer["w"]) + answer["b"])
        assert answer["training_accuracy"] == pytest.approx((decided == y).mean())


@pytest.mark.parametrize("name", model_names())
def test_fit_chooses_the_parameters_that_are_not_given(run: Run, wine: Path, name: str) -> None:
    status, out, _ = run("fit", wine, "--model", name, "--json")
    answer = pure_json(out)
    assert status == 0
    assert answer["status"] in ("optimal", "local", "stationary")
    assert answer["parameters"]


def test_fit_takes_the_parameters_in_place_of_sizes(run: Run, wine: Path) -> None:
    status, out, _ = run("fit", wine, "--model", "kl_svm", "--param", "lam=0.001", "--json")
    assert (status, pure_json(out)["status"]) == (0, "optimal")


def test_fit_without_a_certificate_says_so(run: Run, wine: Path) -> None:
    status, out, err = run(
        "fit", wine, "--model", "nu_svm", "--param", "nu=0.1", "--max-iter", 2, "--solver", "apg"
    )
    assert status == 1
    assert err.startswith("ucm: max_iter: ")
    assert err.count("\n") == 1
    assert "max_iter" in out


def test_fit_with_zero_in_the_set_names_the_largest_size(run: Run, wine: Path) -> None:
    status, out, err = run(
        "fit", wine, "--model", "mm_mpm", "--param", "kappa=50", "--solver", "ssnal", "--json"
    )
    assert status == 1
    assert pure_json(out)["status"] == "zero_in_set"
    assert err.startswith("ucm: zero_in_set: ")
    assert err.count("\n") == 1


def test_fit_writes_a_report(run: Run, wine: Path, tmp_path: Path) -> None:
    for model in ("mm_mpm", "rlsvm2"):  # a set is drawn, of an objective the course of the solve
        given = ["--param", "lam=0.5"] if model == "rlsvm2" else []
        file = tmp_path / f"{model}.html"
        status, out, _ = run("fit", wine, "--model", model, *given, "--report", file)
        page = file.read_text(encoding="utf-8")
        assert status == 0 and str(file) in out and page.count("<img src='data:image/png") == 1
        assert f"{model} on " in page and "The route" in page
    file = tmp_path / "beside.html"
    status, out, _ = run("fit", wine, "--model", "mm_mpm", "--json", "--report", file)
    assert status == 0 and pure_json(out)["status"] == "optimal" and file.exists()
    status, _, err = run("fit", wine, "--model", "mm_mpm", "--report", tmp_path / "no" / "out.html")
    assert status == 2 and err.startswith("ucm: --report") and err.count("\n") == 1


def test_fit_prints_the_iterations(run: Run, wine: Path) -> None:
    status, out, _ = run("fit", wine, "--model", "nu_svm", "--solver", "apg", "--verbose")
    assert status == 0
    assert "relative gap" in out


# --- admissible -------------------------------------------------------------------------------
def test_admissible_lists_the_interval_of_each_parameter(run: Run, wine: Path) -> None:
    X, y = ucm.datasets.load("wine")
    status, out, _ = run("admissible", wine, "--model", "mm_mpm", "--json")
    answer = pure_json(out)
    assert status == 0
    interval = ucm.admissible(ucm.models.mm_mpm(0.5), X, y)["kappa"]
    assert answer["kappa"]["lower"] == interval.lower
    assert answer["kappa"]["upper"] == pytest.approx(interval.upper, rel=1e-6)
    assert answer["kappa"]["how"]
    status, out, _ = run("admissible", wine, "--model", "biased_l2_nu_svm", "--param", "kappa_neg=1")
    assert status == 0
    assert "kappa_pos" in out and "0.5" not in out.partition("biased")[0]


def test_names_and_labels_that_read_as_markup(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a[bold].csv"
    path.write_text("f,g,class\n1,2,[/red]\n2,1,[/red]\n7,8,[blue]\n8,9,[blue]\n")
    status, out, _ = run("fit", path, "--model", "mm_fda", "--param", "kappa=0.1")
    assert status == 0 and "[/red]" in out and "[blue]" in out
    status, out, _ = run("admissible", path, "--model", "mm_fda")
    assert status == 0 and "a[bold].csv" in "".join(out.split())


def test_a_time_limit_ends_fit_with_status_1(run: Run, wine: Path) -> None:
    status, _, err = run("fit", wine, "--model", "nu_svm", "--time-limit", "1e-9")
    assert status == 1 and err.startswith("ucm: time_limit: ")


# --- what loads ---------------------------------------------------------------------------------
def test_the_version_loads_no_solver() -> None:
    code = "import sys\nfrom ucm.cli import main\ntry: main(['--version'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    version, loaded = done.stdout.splitlines()
    assert version == f"ucm {ucm.__version__}"
    assert not {"numpy", "scipy", "sklearn", "pandas", "rich"} & set(loaded.split())


def test_the_help_has_the_default_of_the_labels(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["fit", "--help"])
    label = capsys.readouterr().out.partition("--label COLUMN  ")[2].partition("--model")[0]
    assert "default: the column label, class, target or y" in " ".join(label.split())


def test_the_help_names_what_is_read_by_blocks_and_every_command() -> None:
    text = " ".join(parser().format_help().split())
    assert all(f" {name} " in text for name in commands.COMMANDS)
    assert all(suffix in BLOCKS for suffix in SUFFIXES if suffix != ".csv")


# --- predict ----------------------------------------------------------------------------------
def test_a_saved_classifier_predicts(run: Run, wine: Path, wine_libsvm: Path, tmp_path: Path) -> None:
    X, y = ucm.datasets.load("wine")
    saved, bare = tmp_path / "saved.json", tmp_path / "bare.csv"
    np.savetxt(bare, X, delimiter=",")
    for file, words in ((wine, ("blue", "red")), (wine_libsvm, ("-1", "1"))):
        run("fit", file, "--model", "nu_svm", "--param", "nu=0.3", "--save", saved)
        solution = ucm.solve(ucm.models.nu_svm(0.3), X, y)
        expected = [words[int(score > 0.0)] for score in solution.decision(X)]
        status, out, err = run("predict", saved, file)
        share = np.mean(np.array(expected) == np.where(y > 0, words[1], words[0]))
        assert (status, out.split()) == (0, expected)
        assert err == f"ucm: accuracy {share:.4f} on {y.size} samples\n"
        if file == wine:
            status, out, err = run("predict", saved, bare, "--json")
            answer = pure_json(out)
            assert (status, err, answer["accuracy"], answer["labels"]) == (0, "", None, expected)
            np.testing.assert_allclose(answer["scores"], solution.decision(X), atol=1e-3)


def test_large_csv_files_are_read_block_by_block(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow.csv")
    X, y = ucm.datasets.load("wine")
    file, saved = tmp_path / "X.csv", tmp_path / "saved.json"
    np.savetxt(file, np.column_stack([y, X]), delimiter=",")
    given = ("fit", file, "--label", "first", "--model", "nu_svm", "--param", "nu=0.3", "--json")
    whole = pure_json(run(*given)[1])
    monkeypatch.setattr("ucm.cli.commands._LARGE", 0)
    status, out, _ = run(*given, "--save", saved)
    answer = pure_json(out)
    assert status == 0 and answer["stats"]["solver"] == "out-of-core" != whole["stats"]["solver"]
    assert answer["objective"] == pytest.approx(whole["objective"], rel=1e-5)
    assert answer["labels"] == whole["labels"]
    found = run("predict", saved, file, "--label", "first", "--json")[1]
    assert pure_json(found)["accuracy"] == answer["training_accuracy"]


def test_files_that_are_read_block_by_block(run: Run, tmp_path: Path) -> None:
    X, y = ucm.datasets.load("wine")
    words = np.where(y > 0, "red", "blue")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    saved, file, bare = (tmp_path / name for name in ("saved.json", "X.parquet", "bare.parquet"))
    features = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    parquet.write_table(pa.table({"label": words, **features}), file, row_group_size=40)
    parquet.write_table(pa.table(features), bare)
    given = ("fit", file, "--model", "nu_svm", "--param", "nu=0.3")
    status, out, err = run(*given, "--save", saved, "--json", "--verify")
    answer, solution = pure_json(out), ucm.solve(ucm.models.nu_svm(0.3), X, y)
    assert (status, err) == (0, "")
    assert answer["objective"] == pytest.approx(solution.objective, rel=1e-5)
    assert (answer["samples"], answer["features"]) == X.shape
    assert answer["labels"] == {"-1": "blue", "+1": "red"}
    assert answer["stats"]["solver"] == "out-of-core" and answer["verification"]["agrees"]
    expected = np.where(solution.decision(X) > 0.0, "red", "blue")
    assert answer["training_accuracy"] == np.mean(expected == words)
    status, out, err = run("predict", saved, file)
    assert out.split() == expected.tolist() and "accuracy" in err
    assert run("predict", saved, bare)[1:] == (out, "")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    given = ("fit", tmp_path / "X.npy", "--label", tmp_path / "y.npy", "--model", "psvm")
    assert run(*given, "--param", "p=2", "--param", "C=1")[0] == 0
    assert run("predict", saved, tmp_path / "X.npy")[1] == out
    for wrong, match in (
        (("fit", file, "--model", "nu_svm"), "--param nu=VALUE"),
        ((*given[:2], "--model", "mm_fda", "--param", "kappa=0.1"), "--label left out: y: expected"),
        (("fit", file, "--model", "mm_mpm", "--param", "kappa=0.1", "--open"), "leave them out"),
        (("admissible", file, "--model", "mm_mpm"), "block by block"),
    ):
        status, _, err = run(*wrong)
        assert status == 2 and match in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_columns_are_found_by_their_names(run: Run, tmp_path: Path, kind: str) -> None:
    stored = kind == "parquet"
    pa: Any = pytest.importorskip("pyarrow") if stored else None
    parquet: Any = pytest.importorskip("pyarrow.parquet") if stored else None
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    columns = dict(zip("uvw", X.T, strict=True))
    columns["label"] = np.where(X @ [1.0, -2.0, 3.0] > 0.3, 1.0, -1.0)

    def written(*names: str) -> Path:
        file = tmp_path / f"{''.join(names)}.{kind}"
        if stored:
            parquet.write_table(pa.table({name: columns[name] for name in names}), file)
        else:
            table = np.column_stack([columns[name] for name in names])
            np.savetxt(file, table, delimiter=",", header=",".join(names), comments="")
        return file

    saved, file = tmp_path / "saved.json", written("u", "v", "w", "label")
    assert run("fit", file, "--model", "nu_svm", "--param", "nu=0.3", "--save", saved)[0] == 0
    expected = run("predict", saved, file)[1]
    assert run("predict", saved, written("w", "label", "v", "u"))[1] == expected
    assert run("predict", saved, written("v", "w", "u"))[1] == expected
    if stored:
        assert run("predict", saved, written("v", "w", "label", "u"))[1] == expected
        columns["x"] = X[:, 0]
        assert run("predict", saved, written("x", "w", "label", "v", "u"))[1] == expected
        clf = ucm.Classifier(ucm.models.nu_svm(0.3)).fit(file)
        found = clf.predict(ucm.open_rows(written("w", "label", "v", "u")))
        assert [f"{label:g}" for label in found] == expected.split()
        parquet.write_table(pa.table({"u": X[:0, 0], "v": X[:0, 1], "w": X[:0, 2]}), file)
        status, out, err = run("predict", saved, file)
        assert (status, out) == (2, "") and "X: expected samples, got none (0 rows)" in err
    columns["z"] = X[:, 2]
    status, out, err = run("predict", saved, written("u", "v", "z", "label"))
    assert (status, out) == (2, "") and "expected the columns of the fit, got none named w" in err


def test_a_fit_by_blocks_shows_its_progress(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = ucm.datasets.load("wine")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    labels = ("--label", tmp_path / "y.npy")
    status, _, err = run("fit", tmp_path / "X.npy", *labels, "--model", "svm", "--param", "lam=1")
    assert status == 0 and "iteration 1, gap" in err


def test_indices_that_a_fit_never_saw(run: Run, tmp_path: Path) -> None:
    saved, other = tmp_path / "saved.json", tmp_path / "other"
    for first in (0, 1):
        rows = tmp_path / "rows"
        rows.write_text(f"1 {first}:2 90:4\n-1 7:1\n1 {first}:3\n-1 7:4 90:1\n")
        run("fit", rows, "--model", "nu_svm", "--param", "nu=0.7", "--save", saved)
        other.write_text(f"1 {first}:2 900:1\n-1 7:3\n")
        assert run("predict", saved, other, "--scores")[1].startswith("1,")
        other.write_text("-1 7:3\n1 90:2\n")  # index 0 need not occur again
        assert run("predict", saved, other)[1].split()[0] == "-1"
    other.write_text("-1 0:3\n")
    assert "indices from 1" in run("predict", saved, other)[2]


def test_a_declaration_from_a_file(run: Run, wine: Path, tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    file.write_text(ucm.to_json(ucm.models.mm_mpm(0.2)))
    given = run("fit", wine, "--model-file", file, "--param", "kappa=0.4", "--json")
    named = run("fit", wine, "--model", "mm_mpm", "--param", "kappa=0.4", "--json")
    first, second = pure_json(given[1]), pure_json(named[1])
    assert first["declaration"] == second["declaration"] and first["w"] == second["w"]
    assert run("admissible", wine, "--model-file", file)[0] == 0


# --- what is refused --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "COMMAND"),
        (["nonsense"], "nonsense"),
        (["fit", "{wine}"], "--model"),
        (["fit", "{wine}", "--model", "nothing"], "'nothing': not known; take one of"),
        (["fit", "{wine}", "--model", "nu_svn"], "'nu_svn': not known; did you mean nu_svm?"),
        (
            ["fit", "{wine}", "--model", "generalised_nu_svm"],
            "parameters are numbers; write ucm.to_json(ucm.models.gen",
        ),
        (["fit", "{wine}", "--model", "nu_svm", "--param", "kappa=1"], "no parameter 'kappa'"),
        (
            ["fit", "{wine}", "--model", "nu_svm", "--param", "nu"],
            "--param nu: expected NAME=VALUE",
        ),
        (["fit", "{wine}", "--model", "nu_svm", "--param", "nu=x"], "--param nu=x: expected"),
        (["fit", "{wine}", "--model", "nu_svm", "--param", "nu=0.999"], "nu"),
        (
            ["fit", "{wine}", "--model", "nu_svm", "--param", "nu=.6", "--param", "nu=.5"],
            "--param nu=.5: nu is set before, to 0.6",
        ),
        (["fit", "a\0b", "--model", "nu_svm"], "cannot be read"),
        (["fit", "{wine}", "--model", "nu_svm", "--time-limit", "0"], "time_limit is a positive"),
        (["fit", "{wine}", "--model", "nu_svm", "--param", "nu=-1"], "nu"),
        (["fit", "{wine}", "--model", "nu_svm", "--param", "nu=nan"], "nan"),
        (["fit", "{wine}", "--model", "kl_svm", "--param", "alpha=2"], "alpha"),
        (
            ["fit", "{wine}", "--model", "kl_svm", "--param", "alpha=.2", "--param", "lam=1"],
            "give exactly one of alpha and lam, got",
        ),
        (
            ["fit", "{wine}", "--model", "biased_l2_nu_svm", "--param", "nu_pos=1"],
            "value of nu_neg",
        ),
        (["fit", "{wine}", "--model", "mm_mpm", "--param", "kappa=-1"], "kappa"),
        (["fit", "{wine}", "--model", "nu_svm", "--solver", "magic"], "magic"),
        (["fit", "{wine}", "--model", "nu_svm", "--tol", "small"], "small"),
        (["fit", "{wine}", "--model", "nu_svm", "--tol", "-1"], "tol"),
        (["fit", "{wine}", "--model", "nu_svm", "--max-iter", "0"], "max_iter"),
        (["fit", "{wine}", "--model", "nu_svm", "--label", "f99"], "no column named 'f99'"),
        (
            ["fit", "{numbers}", "--model", "nu_svm", "--label", "b"],
            "expected two classes, got 3 (the labels 2.0, 4.0, 6.0)",
        ),
        (["fit", "{missing}", "--model", "nu_svm"], "No such file"),
        (["fit", "{folder}", "--model", "nu_svm"], "Is a directory"),
        (["fit", "{one_class}", "--model", "nu_svm"], "expected two classes, got one class"),
        (["fit", "{junk}", "--model", "nu_svm"], "junk, line 1: not UTF-8"),
        (["fit", "{text}", "--model", "nu_svm"], "text, line 2, column 2: 'x' is no finite number"),
        (["admissible", "{wine}", "--model", "nothing"], "'nothing': not known"),
        (["fit", "{wine}", "--model", "nu_svm", "--model-file", "x"], "not allowed with"),
        (["fit", "{wine}", "--model-file", "{missing}"], "cannot be read (No such file"),
        (
            ["fit", "{wine}", "--model-file", "{one_class}"],
            "one: cannot be read (from_json: not JSON text",
        ),
        (["predict", "{missing}", "{wine}"], "cannot be read (No such file"),
        (["predict", "{wine}", "{wine}"], "is no classifier of ucm fit"),
        (
            ["predict", "{saved}", "{wine}"],
            "14 values in a row, where the classifier was fitted on 2",
        ),
        (["predict", "{other}", "{wine}"], "is no classifier of ucm fit"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["", "json"])
def test_bad_input_takes_one_line(
    run: Run, wine: Path, tmp_path: Path, arguments: list[str], says: str, options: list[str]
) -> None:
    (tmp_path / "one").write_text("1,2,1\n3,4,1\n")
    (tmp_path / "numbers").write_text("a,b,c\n1,2,0\n3,4,1\n5,6,0\n")
    (tmp_path / "junk").write_bytes(b"\x00\xff\x00")
    (tmp_path / "text").write_text("1,2,-1\n3,x,1\n5,6,1\n")
    files = {
        "wine": wine,
        "missing": tmp_path / "missing",
        "folder": tmp_path,
        "one_class": tmp_path / "one",
        "numbers": tmp_path / "numbers",
        "junk": tmp_path / "junk",
        "text": tmp_path / "text",
    }
    fitted = {
        "ucm_fit": 1, "model": json.loads(ucm.to_json(ucm.models.nu_svm(0.5))), "w": [1.0, 2.0], "b": 0.5,
        "labels": ["a", "b"], "zero_based": None, "names": None,
    }  # fmt: skip
    for name, changed in {"saved": {}, "other": {"labels": "a", "more": 1}}.items():
        files[name] = tmp_path / name
        files[name].write_text(json.dumps(fitted | changed))
    label = ["--label", "last"] if "{one_class}" in arguments[:2] else []
    status, out, err = run(*(str(a).format(**files) for a in arguments), *label, *options)
    assert status == 2
    assert out == ""
    assert err.startswith("ucm: ")
    assert says in err
    assert err.count("\n") == 1


def test_help_and_version_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, says in ((["--help"], "demo"), (["--version"], ucm.__version__)):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 0
        assert says in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_an_encoding_without_greek_letters_is_no_error(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([*COMMAND, "models"], capture_output=True, env=environment, check=False)
    assert done.returncode == 0 and not done.stderr
    assert "nu_svm(nu)" in done.stdout.decode(encoding)


# --- interrupted ------------------------------------------------------------------------------
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_ends_without_a_traceback() -> None:
    # a job in the background ignores Ctrl-C, and its children inherit that
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listening}; import sys; from ucm.cli import main; sys.exit(main(['demo']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        first = known(process.stdout).readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert "Six classifiers" in first
    assert process.returncode == 130
    assert "ucm: interrupted" in err
    assert "Traceback" not in err


def test_a_closed_pipe_is_no_error() -> None:
    process = subprocess.Popen([*COMMAND, "models", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        known(process.stdout).close()
        err = known(process.stderr).read()
    assert b"Traceback" not in err


def test_a_fit_without_a_direction_is_not_saved(run: Run, wine: Path, tmp_path: Path) -> None:
    saved, declared = tmp_path / "saved.json", tmp_path / "declared.json"
    declared.write_text(ucm.to_json(ucm.Logistic() + 1e9 * ucm.L1()))
    for options in (
        ["--model", "mm_mpm", "--param", "kappa=50", "--solver", "ssnal"],
        ["--model-file", declared],
    ):
        arguments = ("fit", wine, *options)
        status, out, err = run(*arguments, "--save", saved)
        assert (status, out, saved.exists()) == (2, "", False), err
        assert "expected a direction to classify by, got w = 0" in err and "leave --save out" in err
        assert run(*arguments)[1] != ""


def test_a_gap_below_rounding_has_no_sign(run: Run, wine: Path) -> None:
    line = next(x for x in run("fit", wine, "--model", "mm_fda")[1].splitlines() if "gap" in x)
    assert "-" not in line.replace("e-", "")
