-- Keys whose permissions hold for jobs with certain labels alone. Programs of the release before do not know the columns: to them such a
-- key has no permission, because its `scopes` are empty.

SELECT tickwise.lock_briefly(ARRAY['keys']);

ALTER TABLE tickwise.keys
  ADD COLUMN labels          jsonb,     -- NULL: for all jobs
  ADD COLUMN labelled_scopes text[],    -- the permissions, if there are labels
  ADD CONSTRAINT keys_labelled CHECK ((labels IS NULL) = (labelled_scopes IS NULL) AND (labels IS NULL OR scopes = '{}'));
