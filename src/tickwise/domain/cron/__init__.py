"""Cron expressions: their text, the wall times that they name, their fires in a zone, and their sentences."""
