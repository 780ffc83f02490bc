"""People and their ways in.

- `users` keeps people and their roles. `auth` makes tokens for a credential, at the `pace` of sign-ins. `bearers`
  finds the caller of a token.
- `tokens` is the form of a token. `passwords` says which passwords are taken, and hashes them.

Invariant: nobody hands out a permission that they do not have themselves.
"""
