"""Demur inside LangChain agents: a local chat model with a window into it (`chat_model.LocalChatModel`)."""
