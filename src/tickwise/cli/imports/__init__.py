"""The import of schedules that others wrote: jobs of their lines, and channels of their addresses."""
