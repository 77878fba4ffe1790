"""Metrics with intervals, graders and groups of near-duplicates: arrays and records in, numbers out."""
