"""Which candidate the question means: pure functions over what a source returned."""
