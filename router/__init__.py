"""One call from end to end: assess, decide, act, record; and the pipelines that fit, evaluate and replay."""
