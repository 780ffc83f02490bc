"""Blob storage, as the settings name it: opened, looked at, copied."""
