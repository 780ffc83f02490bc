-- Nothing is left of the failed run $1 and of what it led to: nothing gathers the next notice, and the history has what flowed alone.
WITH n AS (DELETE FROM tickwise.notices WHERE state = 'delivered'), a AS (DELETE FROM tickwise.alerts)
DELETE FROM tickwise.history WHERE run_id = $1
