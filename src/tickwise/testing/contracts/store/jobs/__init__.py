"""What people ask of a store."""
