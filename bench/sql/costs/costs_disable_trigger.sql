-- A trigger is left out.
ALTER TABLE tickwise.{table} DISABLE TRIGGER {name};
