-- The gone whose runs may not be free yet.
SELECT executor FROM tickwise.executors WHERE gone IS NOT NULL AND NOT settled ORDER BY executor
