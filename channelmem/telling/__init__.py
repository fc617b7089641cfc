"""From messages to text: threads, gaps, references, the block for a model, and answers that quote."""
