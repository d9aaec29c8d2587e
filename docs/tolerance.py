"""Draw the picture of audit.md: `python -m docs.tolerance` from the root, some minutes of LIBLINEAR."""

from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.audit import TOLERANCES, tolerances

FILE = Path(__file__).resolve().parent / "_static" / "tolerance.png"
FLOOR = 1e-13  # errors below it are rounding


def draw(rows: list[dict]) -> None:
    """Draw the errors of the rows of `benchmarks.audit.tolerances` against the tolerances."""
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for name, marker in zip(("SGD", "LIBLINEAR", "LIBSVM", "ucm"), "sovD", strict=True):
        part = [row for row in rows if row["solver"] == name]
        errors = [max(row["error"], FLOOR) for row in part]
        ax.loglog([row["tol"] for row in part], errors, marker=marker, label=name)
    ax.loglog(TOLERANCES, TOLERANCES, color="grey", linestyle=":", label="error = tol")
    ax.set(xlabel="tol", ylabel="relative error of the objective")
    ax.invert_xaxis()
    ax.legend()
    figure.savefig(FILE, dpi=110)


if __name__ == "__main__":
    draw(list(tolerances()))
