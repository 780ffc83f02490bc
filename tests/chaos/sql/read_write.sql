-- New sessions of this role may write again.
ALTER ROLE CURRENT_USER RESET default_transaction_read_only;
