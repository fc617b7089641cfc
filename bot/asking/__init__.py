"""Questions to the bot: mentions, replies, /ask and /why, and the way an answer reaches people."""
