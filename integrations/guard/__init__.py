"""`router.guard`: the decorator around plain Python functions."""
