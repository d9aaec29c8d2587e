"""`python -m ucm.cli`, which is the command `ucm`."""

from __future__ import annotations

import sys

from ucm.cli import main

if __name__ == "__main__":
    sys.exit(main())
