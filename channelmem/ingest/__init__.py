"""What a message passes on its way in: tidied, stored, embedded in batches."""
