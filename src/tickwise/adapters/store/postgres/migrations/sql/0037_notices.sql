-- A channel whose tries fail rests until `again_at`: `failures` counts them in a row. `slow`: its newest try took long. A notice that was made
-- while another one of its channel and rule was under way (`beside`) says how many of its subjects that one counts too (`repeated`).
SELECT tickwise.lock_briefly(ARRAY['channels', 'notices']);
ALTER TABLE tickwise.channels
  ADD COLUMN failures int NOT NULL DEFAULT 0, ADD COLUMN again_at timestamptz, ADD COLUMN slow boolean NOT NULL DEFAULT false;
ALTER TABLE tickwise.notices ADD COLUMN beside uuid, ADD COLUMN repeated bigint NOT NULL DEFAULT 0;
