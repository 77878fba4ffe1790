"""Open-weight models from Hugging Face, with a window into them (see `model.HuggingFaceModel`)."""
