-- What an executor holds under tokens up to one. $1 executor, $2 token. Reads all of `runs`, which is small; asked only when digests differ.
SELECT run_id, token FROM tickwise.runs WHERE holder = $1 AND token <= $2
