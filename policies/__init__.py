"""Confidence, costs and limits in; a route out."""
