"""The command-line program `ucm`, with the commands demo, models, fit, predict and admissible.

Exit status: 0 done and certified, 1 an answer without the certificate or agreement asked for,
2 bad input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from ucm import __version__
from ucm.errors import ConvergenceWarning, ParameterError, UCMError, silenced

__all__ = ["main"]

SCALING = (
    "The features are used as they are: their scales change the classifier, so standardise columns of "
    "different units."
)
BLOCKS = (
    "A FILE that ends with .npy, .parquet, .arrow, .feather, .h5, .hdf5 or .zarr, or a CSV file of 256 MB "
    "or more, is read block by block: give --label the name of its column of labels, or for a .npy file "
    "another .npy file with the labels."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command-line program `ucm`, and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # mathematics where the encoding has no letter for it
            stream.reconfigure(errors="replace")
    try:
        options = parser().parse_args(arguments)
        # `--version` and `--help` end above, before the solvers are imported
        run = import_module("ucm.cli.commands").COMMANDS[options.command]
        # every command prints status and gap itself
        with silenced(ConvergenceWarning):
            return run(options)
    except UCMError as error:
        print("ucm: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ucm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the pipe is closed: discard the interpreter's last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises `ParameterError` for invalid arguments."""

    def error(self, message: str) -> NoReturn:
        raise ParameterError(f"{message} (see {self.prog} --help)")


def _parent() -> _Parser:
    """Return an empty parser, to hold arguments that several commands share."""
    return _Parser(add_help=False)


def parser() -> _Parser:
    """Return the argument parser of `ucm`; its result has the name of the command as `command`."""
    output, page, classifier, samples, model = (_parent() for _ in range(5))
    output.add_argument("--json", action="store_true", help="print JSON; infinite numbers are null")
    page.add_argument("--report", metavar="FILE", help="write a page with pictures, as HTML")
    page.add_argument("--open", action="store_true", help="show the page in a browser")
    classifier.add_argument("classifier", metavar="JSON", help="written by ucm fit --save")
    samples.add_argument("file", metavar="FILE", help="samples and labels: LIBSVM, CSV, or a format below")
    samples.add_argument(
        "--label",
        metavar="COLUMN",
        help="the column of the labels in a CSV file: first, last or a name (default: the column label, "
        "class, target or y; else the only column of text; else the first or the last column, if only one "
        "of them has two values)",
    )
    source = model.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", metavar="NAME", help="a name that `ucm models` lists")
    source.add_argument("--model-file", metavar="JSON", help="a file written by ucm.to_json")
    model.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter's value"
    )

    main = _Parser(prog="ucm", description="Declare, solve, certify and verify classifiers.")
    main.add_argument("--version", action="version", version=f"ucm {__version__}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, text: str, *parents: _Parser) -> _Parser:
        return commands.add_parser(name, help=text, description=text, parents=[output, *parents])

    command("demo", "solve six models on real data, certify them, verify them by CVXPY", page)
    command("models", "list the named models, with their mathematics")
    fit = command("fit", "fit a model to a file", samples, model, page)
    fit.epilog = f"{SCALING} {BLOCKS}"
    fit.add_argument("--solver", default="auto", metavar="NAME", help="default: by the route table")
    fit.add_argument("--tol", type=float, default=1e-6, help="relative gap (default: 1e-6)")
    fit.add_argument("--max-iter", type=int, help="limit of iterations")
    fit.add_argument("--time-limit", type=float, metavar="SECONDS", help="for compile and solve")
    fit.add_argument("--verify", action="store_true", help="compare with the solution of CVXPY")
    fit.add_argument("--verbose", action="store_true", help="print the form, the routes and the iterations")
    fit.add_argument("--save", metavar="JSON", help="write the classifier, for ucm predict")
    predict = command("predict", "predict the labels of samples by a saved classifier", classifier, samples)
    predict.epilog = BLOCKS
    predict.add_argument(
        "--scores", action="store_true", help="w'x + b beside each label, separated by a comma"
    )
    command("admissible", "the interval of each parameter in which the problem is convex", samples, model)
    return main
