"""What many runs come to: analytics."""
