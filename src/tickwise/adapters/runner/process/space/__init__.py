"""The room that a task takes on a disk: its work folder and its temporary files."""
