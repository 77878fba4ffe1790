"""The review queue: calls that wait for a human. Store and state machine; no web."""
