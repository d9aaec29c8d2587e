"""The command `ucm`: demo, models, fit, predict, admissible.

Exit status: 0 done and certified, 1 an answer without the certificate or agreement asked for,
2 bad input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from ucm.cli.arguments import parser
from ucm.errors import ConvergenceWarning, UCMError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    try:
        options = parser().parse_args(arguments)
        # `--version` and `--help` end above, before the solvers are imported
        run = import_module("ucm.cli.commands").COMMANDS[options.command]
        # every command prints status and gap itself
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
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
