-- From now on new sessions of this role write nothing.
ALTER ROLE CURRENT_USER SET default_transaction_read_only = on;
