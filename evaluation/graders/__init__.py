"""Graders: a response and its gold answers in, right or wrong out. `registry.get_grader(name)` gives one."""
