"""`/auth/second-factors`: the second factors of the caller, and those of people for administrators."""
