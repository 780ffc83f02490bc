-- People, their roles in namespaces, their sessions; and namespaces that somebody made.

SELECT tickwise.lock_briefly(ARRAY['keys']);

CREATE TABLE tickwise.namespaces (
  created      timestamptz NOT NULL,
  version      bigint NOT NULL,
  name         text PRIMARY KEY,
  display_name text NOT NULL,
  state        text NOT NULL CHECK (state IN ('active', 'closing')),
  created_by   text NOT NULL
);
-- Those of programs before: a namespace was there as soon as a key or a lane named it.
INSERT INTO tickwise.namespaces (created, version, name, display_name, state, created_by)
SELECT tickwise.now(), 1, name, name, 'active', 'tickwise'
FROM (SELECT 'default' AS name UNION SELECT namespace FROM tickwise.keys UNION SELECT namespace FROM tickwise.lanes) n;

CREATE TABLE tickwise.users (
  created    timestamptz NOT NULL,
  signed_in  timestamptz,               -- NULL: never
  version    bigint NOT NULL,
  generation bigint NOT NULL,           -- a token names the one that it was made for
  user_id    uuid PRIMARY KEY,
  active     boolean NOT NULL,
  name       text NOT NULL,
  name_key   text NOT NULL UNIQUE,      -- as it is compared
  email      text,
  email_key  text UNIQUE,
  password   text,                      -- argon2id, encoded; NULL: a link has to be used first
  created_by text NOT NULL
);
CREATE TABLE tickwise.members (
  user_id   uuid NOT NULL REFERENCES tickwise.users ON DELETE CASCADE,
  namespace text NOT NULL,              -- '*': each one, and the installation
  role      text NOT NULL,
  PRIMARY KEY (user_id, namespace, role)
);
CREATE INDEX members_namespace ON tickwise.members (namespace, role);

CREATE TABLE tickwise.custom_roles (
  namespace   text NOT NULL,
  name        text NOT NULL,
  permissions text[] NOT NULL,
  labels      jsonb NOT NULL,           -- it holds for jobs that have all of these
  PRIMARY KEY (namespace, name)
);

CREATE TABLE tickwise.user_links (
  expires    timestamptz NOT NULL,
  used       timestamptz,
  user_id    uuid NOT NULL REFERENCES tickwise.users ON DELETE CASCADE,
  digest     bytea PRIMARY KEY,         -- SHA-256
  kind       text NOT NULL CHECK (kind IN ('invitation', 'reset')),
  created_by text NOT NULL
);
CREATE INDEX user_links_user ON tickwise.user_links (user_id);

CREATE TABLE tickwise.sessions (
  created    timestamptz NOT NULL,
  rotated    timestamptz NOT NULL,
  expires    timestamptz NOT NULL,      -- unused so long, it ends
  ends       timestamptz NOT NULL,      -- it ends, used or not
  revoked    timestamptz,
  generation bigint NOT NULL,
  family     uuid PRIMARY KEY,
  user_id    uuid NOT NULL REFERENCES tickwise.users ON DELETE CASCADE,
  digest     bytea NOT NULL UNIQUE,     -- of the refresh token that works
  scope      text[],                    -- NULL: not bounded
  namespace  text,
  address    text NOT NULL
);
CREATE INDEX sessions_user ON tickwise.sessions (user_id);
CREATE INDEX sessions_ends ON tickwise.sessions (ends);
-- Refresh tokens that were rotated: shown again, they end their family.
CREATE TABLE tickwise.session_tokens (
  digest bytea PRIMARY KEY,
  family uuid NOT NULL REFERENCES tickwise.sessions ON DELETE CASCADE
);
CREATE INDEX session_tokens_family ON tickwise.session_tokens (family);

CREATE TABLE tickwise.token_keys (
  created timestamptz NOT NULL,
  retired timestamptz,
  key_id  text PRIMARY KEY,
  public  bytea NOT NULL CHECK (length(public) = 32)
);

ALTER TABLE tickwise.keys
  ADD COLUMN namespaces text[];         -- NULL: its own, or each one for keys of the installation; {*}: each one
