-- The answer kept under a client's key.
SELECT body_digest, status, body FROM tickwise.receipts
WHERE principal = $1 AND route = $2 AND key = $3 AND expires > tickwise.now()
