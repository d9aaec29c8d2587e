"""Figures of the papers and seconds beside other solvers: `python -m benchmarks.papers unified table-4`."""
