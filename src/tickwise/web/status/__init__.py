"""The public status pages: no account, no cookie, no script, and a bounded cost however often they are asked for."""
