"""The JSON documents that the store keeps as text: definitions of jobs, calendars, and maintenance windows.

Control writes them, schedulers and executors read them, and a store never looks inside. They know ports and the domain.
"""
