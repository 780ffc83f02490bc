-- An answer that tells of more than was done is not kept after all.
DELETE FROM tickwise.receipts WHERE principal = $1 AND route = $2 AND key = $3
