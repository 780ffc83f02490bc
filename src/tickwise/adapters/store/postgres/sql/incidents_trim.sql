-- What was noticed before the oldest runs that are kept. $1 those ended after this.
DELETE FROM tickwise.incidents WHERE ended < to_timestamp($1::float8)
