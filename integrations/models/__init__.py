"""Models: Hugging Face, LangChain and plain callables behind core's `Model` protocol."""
