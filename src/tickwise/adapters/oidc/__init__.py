"""OpenID Connect: issuers with their keys, checks of tokens, and the provider that signs people in.

    provider ──► tokens ──► issuer ──► requests ──► `adapters.outgoing`

`requests` speaks HTTP with bounds, `issuer` keeps what an issuer publishes, `tokens` judges a token, `provider` carries
out a sign-in. Signatures and claims are pyjwt's, the words of OAuth 2 are oauthlib's (docs/decisions/0089).
"""
