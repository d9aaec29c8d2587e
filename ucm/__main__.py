"""`python -m ucm`: the command line, where the script `ucm` is not on the path."""

from ucm.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
