"""The arguments of the commands; this module loads no solver."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from ucm import __version__
from ucm.errors import ParameterError

__all__ = ["BY_BLOCKS", "parser"]

SCALED = (
    "The features are used as they are: their scales change the classifier, so standardise columns of "
    "different units."
)
BY_BLOCKS = (
    "A FILE that ends with .npy, .parquet, .arrow, .feather, .h5, .hdf5, .csv or .zarr is read block by "
    "block, of .csv from 256 MB on; its COLUMN is a name, of .npy a file of labels."
)


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaints take one line, like every other."""

    def error(self, message: str) -> NoReturn:
        raise ParameterError(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; `command` of its answer is the name of the command."""
    whole = _Parser(prog="ucm", description="Declare, solve, certify and verify classifiers.")
    whole.add_argument("--version", action="version", version=f"ucm {__version__}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, what: str) -> Any:
        sub = commands.add_parser(name, help=what, description=what)
        sub.add_argument(
            "--json", action="store_true", help="print JSON; infinite numbers are null"
        )
        return sub

    def of_a_file(sub: Any) -> None:
        sub.add_argument("file", metavar="FILE", help="samples and labels, LIBSVM or CSV")
        sub.add_argument("--label", metavar="COLUMN", help="of a CSV file: first, last or a name")

    def on_a_file(sub: Any) -> None:
        of_a_file(sub)
        model = sub.add_mutually_exclusive_group(required=True)
        model.add_argument("--model", metavar="NAME", help="a name of ucm models")
        model.add_argument("--model-file", metavar="JSON", help="a file written by ucm.to_json")
        sub.add_argument(
            "--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter's value"
        )

    demo = command("demo", "six models on real data: solved, certified, verified by CVXPY")
    demo.add_argument(
        "--report", metavar="FILE", help="the page to write (default: a temporary one)"
    )
    demo.add_argument("--open", action="store_true", help="show the page in a browser")
    command("models", "the named models, with their mathematics")
    fit = command("fit", "fit a model to a file")
    on_a_file(fit)
    fit.epilog = f"{SCALED} {BY_BLOCKS}"
    fit.add_argument("--solver", default="auto", metavar="NAME", help="default: by the route table")
    fit.add_argument("--tol", type=float, default=1e-6, help="relative gap (default: 1e-6)")
    fit.add_argument("--max-iter", type=int, help="limit of iterations")
    fit.add_argument("--time-limit", type=float, metavar="SECONDS", help="for compile and solve")
    fit.add_argument("--verify", action="store_true", help="compare with the solution of CVXPY")
    fit.add_argument(
        "--verbose", action="store_true", help="the form, the routes and the iterations"
    )
    fit.add_argument("--save", metavar="JSON", help="write the classifier, for ucm predict")
    fit.add_argument("--report", metavar="FILE", help="write a page with pictures, as HTML")
    fit.add_argument("--open", action="store_true", help="show the page in a browser")
    predict = command("predict", "the labels of samples by a classifier that fit saved")
    predict.add_argument("classifier", metavar="JSON", help="what ucm fit --save wrote")
    of_a_file(predict)
    predict.epilog = BY_BLOCKS
    predict.add_argument(
        "--scores", action="store_true", help="w'x + b beside each label, separated by a comma"
    )
    on_a_file(command("admissible", "where the model is not trivial on a file"))
    return whole
