-- A check is left out.
ALTER TABLE tickwise.{table} DROP CONSTRAINT {name};
