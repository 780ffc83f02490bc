"""Secrets: the references that tasks hold in place of values.

references  which text stands for which secret, and how its value comes to the task?
"""
