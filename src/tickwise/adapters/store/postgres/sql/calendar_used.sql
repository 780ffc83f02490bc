-- Whether a job that is not cancelled goes by a calendar. $1 namespace, $2 name.
SELECT EXISTS (
  SELECT FROM tickwise.jobs_lasting
  WHERE calendars IS NOT NULL AND calendars @> ARRAY[$2::text] AND namespace = $1 AND standing <> 2)
