"""What servers and channels are called, told to the memory for people who look into it."""
