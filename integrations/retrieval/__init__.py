"""Retrievers and embedders behind core's protocols."""
