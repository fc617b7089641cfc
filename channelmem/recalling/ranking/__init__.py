"""Which of the candidates is meant: pure functions over what a source returned."""
