"""The installation of a data folder as a whole: its backup, and its way back into an empty folder."""
