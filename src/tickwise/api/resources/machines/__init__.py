"""Ways in without a stored key: terminals that a person approves, and tokens of other issuers."""
