"""Out-of-core solvers: data are read block by block, and each pass returns small sums or few rows."""
