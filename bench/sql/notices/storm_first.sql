-- The end of the first run, in Unix seconds.
SELECT date_part('epoch', min(ended)) FROM tickwise.history
