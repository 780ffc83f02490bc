"""Public calendars, read with libraries of the extra `calendars`.

files.py       the port: which library, what is installed, holidays
events.py      an iCalendar file as days and periods
recurrence.py  the days of its rules
"""
