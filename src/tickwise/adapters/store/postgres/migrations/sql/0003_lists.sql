-- Where a job stands in lists, newest first. Most ids begin with the time of their creation, and the job stands by its id. One whose
-- client chose an id that says another time stands here, by when it was created.
CREATE TABLE tickwise.jobs_placed (
  listed    uuid NOT NULL,
  job_id    uuid PRIMARY KEY,
  namespace text NOT NULL
);
CREATE INDEX jobs_placed_listed ON tickwise.jobs_placed (namespace, listed);

-- Below every id of that millisecond or later.
CREATE FUNCTION tickwise.first_id(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (lpad(to_hex(floor(date_part('epoch', at - timestamptz 'epoch') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- The place of a job that was created then under an id that its client chose; NULL: its id says that time, to the minute. As
-- `model.place_of` has it.
CREATE FUNCTION tickwise.listed(created timestamptz, job_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN job_id < tickwise.first_id(created - interval '1 minute') OR job_id >= tickwise.first_id(created + interval '1 minute')
    THEN (substr(replace(tickwise.first_id(created)::text, '-', ''), 1, 12)
          || substr(encode(sha256(uuid_send(job_id)), 'hex'), 1, 20))::uuid END
$$;
