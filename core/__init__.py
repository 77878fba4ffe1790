"""What flows through Demur, and the protocols that its rooms meet at."""
