"""Experience: what was asked before, how sure the model was, and what turned out right."""
