-- Which process of the server serves this session, and a setting that it was begun with.
SELECT pg_backend_pid(), current_setting('idle_in_transaction_session_timeout')
