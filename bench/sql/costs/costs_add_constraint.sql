-- And is back.
ALTER TABLE tickwise.{table} ADD CONSTRAINT {name} {demands};
