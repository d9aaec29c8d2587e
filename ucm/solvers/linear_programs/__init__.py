"""Linear programs by HiGHS: nearest points in polyhedral norms, piecewise linear losses and penalties."""
