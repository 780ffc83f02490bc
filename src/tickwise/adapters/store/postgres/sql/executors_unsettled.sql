-- The gone whose runs may not be free yet, each for one scheduler.
SELECT executor FROM tickwise.executors WHERE gone IS NOT NULL AND NOT settled ORDER BY executor
FOR UPDATE SKIP LOCKED
