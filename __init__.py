"""Demur: middleware that gives LLM agents the judgement to say "I am not sure"."""
