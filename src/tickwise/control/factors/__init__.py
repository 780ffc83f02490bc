"""Second factors: codes (TOTP), passkeys (WebAuthn) and recovery codes.

    password ──► `steps`: no factor ──► session
                    ├─ a factor ──► step ──code, passkey, recovery code──► session
                    └─ none, and a role requires one ──► step ──`enrolments`──► session

Protocols and cryptography are those of `pyotp` and `fido2`. Invariant: what the first step gives is worth nothing but
for the second one.
"""
