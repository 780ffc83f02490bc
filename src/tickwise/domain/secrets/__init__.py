"""Secrets: the references that tasks hold in place of values.

references      which text stands for which secret, and how its value comes to the task?
places          where in a task may a reference stand?
output_masking  how is a value found in the output of a task?
"""
