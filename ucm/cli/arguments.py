"""The arguments of the commands; this module loads no solver."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from ucm import __version__
from ucm.errors import ParameterError

SCALED = (
    "The features are used as they are: their scales change the classifier, so standardise columns of "
    "different units."
)
BY_BLOCKS = (
    "A FILE that ends with .npy, .parquet, .arrow, .feather, .h5, .hdf5 or .zarr, or a CSV file of 256 MB "
    "or more, is read block by block: give --label the name of its column of labels, or for a .npy file "
    "another .npy file with the labels."
)


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        raise ParameterError(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; the parsed `command` is the name of the command."""
    main = _Parser(prog="ucm", description="Declare, solve, certify and verify classifiers.")
    main.add_argument("--version", action="version", version=f"ucm {__version__}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> Any:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--json", action="store_true", help="print JSON; infinite numbers are null")
        return sub

    def add_file(sub: Any) -> None:
        sub.add_argument(
            "file",
            metavar="FILE",
            help="samples and labels: LIBSVM, CSV, or a format below",
        )
        sub.add_argument(
            "--label",
            metavar="COLUMN",
            help="the column of the labels in a CSV file: first, last or a "
            "name (default: the column label, class, target or y; else the only column of text; else "
            "the first or the last column, if only one of them has two values)",
        )

    def add_model(sub: Any) -> None:
        add_file(sub)
        model = sub.add_mutually_exclusive_group(required=True)
        model.add_argument("--model", metavar="NAME", help="a name that `ucm models` lists")
        model.add_argument("--model-file", metavar="JSON", help="a file written by ucm.to_json")
        sub.add_argument(
            "--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter's value"
        )

    demo = command("demo", "solve six models on real data, certify them, verify them by CVXPY")
    demo.add_argument("--report", metavar="FILE", help="the page to write (default: a temporary file)")
    demo.add_argument("--open", action="store_true", help="show the page in a browser")
    command("models", "list the named models, with their mathematics")
    fit = command("fit", "fit a model to a file")
    add_model(fit)
    fit.epilog = f"{SCALED} {BY_BLOCKS}"
    fit.add_argument("--solver", default="auto", metavar="NAME", help="default: by the route table")
    fit.add_argument("--tol", type=float, default=1e-6, help="relative gap (default: 1e-6)")
    fit.add_argument("--max-iter", type=int, help="limit of iterations")
    fit.add_argument("--time-limit", type=float, metavar="SECONDS", help="for compile and solve")
    fit.add_argument("--verify", action="store_true", help="compare with the solution of CVXPY")
    fit.add_argument("--verbose", action="store_true", help="print the form, the routes and the iterations")
    fit.add_argument("--save", metavar="JSON", help="write the classifier, for ucm predict")
    fit.add_argument("--report", metavar="FILE", help="write a page with pictures, as HTML")
    fit.add_argument("--open", action="store_true", help="show the page in a browser")
    predict = command("predict", "predict the labels of samples by a saved classifier")
    predict.add_argument("classifier", metavar="JSON", help="written by ucm fit --save")
    add_file(predict)
    predict.epilog = BY_BLOCKS
    predict.add_argument(
        "--scores", action="store_true", help="w'x + b beside each label, separated by a comma"
    )
    add_model(command("admissible", "the interval of each parameter in which the problem is convex"))
    return main
