-- And is back.
ALTER TABLE tickwise.{table} ENABLE TRIGGER {name};
