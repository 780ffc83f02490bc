"""Schedules of other systems read into job bodies, and jobs written as a crontab. Pure: text in, values out."""
