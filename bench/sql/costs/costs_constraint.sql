-- What a constraint of a table demands.
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1::text::regclass AND conname = $2;
