-- Second factors of people, their recovery codes, and the steps of sign-ins that wait for one.

CREATE TABLE tickwise.factors (
  created       timestamptz NOT NULL,
  used          timestamptz,
  suspected     timestamptz,               -- its counter fell: there may be a copy of it
  counter       bigint NOT NULL,           -- the time step of the last code, or the signatures of a passkey
  confirmed     boolean NOT NULL,
  factor_id     uuid PRIMARY KEY,
  user_id       uuid NOT NULL REFERENCES tickwise.users ON DELETE CASCADE,
  kind          text NOT NULL,
  name          text NOT NULL,
  secret        bytea NOT NULL,            -- a sealed seed; of a passkey, its public key
  credential_id bytea UNIQUE,              -- of a passkey
  place         text,                      -- of a passkey: its RP ID
  password_limit jsonb                     -- the bound of the password with which it was enrolled
);
CREATE INDEX factors_user ON tickwise.factors (user_id);

CREATE TABLE tickwise.recovery_codes (
  made    timestamptz NOT NULL,
  used    timestamptz,
  use_id  uuid,
  user_id uuid NOT NULL REFERENCES tickwise.users ON DELETE CASCADE,
  digest  bytea NOT NULL,                  -- SHA-256 of the code
  PRIMARY KEY (user_id, digest)
);

CREATE TABLE tickwise.factor_steps (
  expires    timestamptz NOT NULL,
  generation bigint NOT NULL,              -- of the person
  tries      integer NOT NULL,
  digest     bytea PRIMARY KEY,            -- SHA-256 of its secret
  purpose    text NOT NULL,
  user_id    uuid REFERENCES tickwise.users ON DELETE CASCADE,
  challenge  bytea NOT NULL,
  use_id     uuid                          -- of what settled it
);
CREATE INDEX factor_steps_user ON tickwise.factor_steps (user_id, purpose);
CREATE INDEX factor_steps_expires ON tickwise.factor_steps (expires);

CREATE TABLE tickwise.factor_resets (
  made    timestamptz NOT NULL,
  user_id uuid PRIMARY KEY REFERENCES tickwise.users ON DELETE CASCADE,
  made_by text NOT NULL
);
