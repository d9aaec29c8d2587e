"""One script for each paper: its tables and figures beside what they print."""
