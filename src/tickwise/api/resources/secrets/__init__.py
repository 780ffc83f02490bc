"""`/secrets`: values that tasks name and no answer has."""
