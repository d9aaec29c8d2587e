"""The standard forms of problems, and the answers of solvers."""
