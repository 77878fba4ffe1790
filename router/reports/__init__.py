"""The report of an evaluation: one HTML file that stands by itself, for people who did not run it."""
