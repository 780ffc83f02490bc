"""The fields of http tasks: checked, and filled with the values of a run, without the library that sends them."""
