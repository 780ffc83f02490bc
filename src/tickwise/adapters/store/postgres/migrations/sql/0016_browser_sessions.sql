-- Sessions of browsers, and the links that open one.

CREATE TABLE tickwise.browser_sessions (
  created    timestamptz NOT NULL,
  used       timestamptz NOT NULL,      -- to the minute
  expires    timestamptz NOT NULL,      -- unused so long, it ends
  ends       timestamptz NOT NULL,      -- it ends, used or not
  generation bigint NOT NULL,           -- of the person, or the number of the key's secret
  session_id uuid PRIMARY KEY,
  user_id    uuid REFERENCES tickwise.users ON DELETE CASCADE,
  key_id     uuid REFERENCES tickwise.keys (key_id) ON DELETE CASCADE,
  digest     bytea NOT NULL UNIQUE,     -- SHA-256 of the cookie
  address    text NOT NULL,
  CHECK ((user_id IS NULL) <> (key_id IS NULL))
);
CREATE INDEX browser_sessions_user ON tickwise.browser_sessions (user_id);
CREATE INDEX browser_sessions_key ON tickwise.browser_sessions (key_id);

CREATE TABLE tickwise.session_links (
  expires    timestamptz NOT NULL,
  generation bigint NOT NULL,
  opened     uuid,                      -- the session
  user_id    uuid REFERENCES tickwise.users ON DELETE CASCADE,
  key_id     uuid REFERENCES tickwise.keys (key_id) ON DELETE CASCADE,
  digest     bytea PRIMARY KEY,         -- SHA-256 of its secret
  CHECK ((user_id IS NULL) <> (key_id IS NULL))
);
CREATE INDEX session_links_user ON tickwise.session_links (user_id);
CREATE INDEX session_links_key ON tickwise.session_links (key_id);
