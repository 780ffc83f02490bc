"""The store over a log, without the contract of stores."""
