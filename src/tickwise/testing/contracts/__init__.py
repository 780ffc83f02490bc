"""One suite per port: its docstrings, clause by clause, as tests. An adapter passes by subclassing every class.

    class TestClaims(Backend, ClaimsContract): ...        Backend: how this adapter is made, and how its clock is moved

Let pytest rewrite the assertions before the first import:
`pytest.register_assert_rewrite("tickwise.testing.contracts")`.
"""
