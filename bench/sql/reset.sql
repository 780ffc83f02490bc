-- An empty store, as a fresh installation has it; statistics are left as they are, as they are there.
TRUNCATE tickwise.jobs, tickwise.timers, tickwise.runs, tickwise.history, tickwise.attempts, tickwise.cancel_requests;
