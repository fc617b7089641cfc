"""A message on its way in: normalised, then embedded in batches; and the rebuilding of vectors for another model."""
