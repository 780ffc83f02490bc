-- The last epochs, newest first. $1 at most.
SELECT epoch, date_part('epoch', began) AS began_at, cause, timeline, seen > token AS lost_tokens, differed
FROM tickwise.epochs ORDER BY epoch DESC LIMIT $1
