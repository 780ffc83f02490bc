"""Sign-in by a provider: from the button to a session.

- `service` begins and completes sign-ins, and ends sessions when the provider says so. `accounts` finds or adds the
  person of an identity. `identities` ties people to identities by hand.
- `secrets` are those of one sign-in. `rules` are those of the installation.
"""
