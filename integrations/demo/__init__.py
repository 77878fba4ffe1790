"""The demo: a real small model answers trivia and says when it is not sure. Its data is package data of this room."""
