"""The papers' own algorithms, by name only: short, in NumPy, as printed. `solver="auto"` never takes
them."""
