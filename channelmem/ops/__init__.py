"""What operators look at: `doctor` checks the machine, `inspect` reads what Redis holds."""
