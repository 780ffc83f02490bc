-- People at providers, sign-ins by a provider that are under way, the sessions that came of them, and used logout tokens.

CREATE TABLE tickwise.identities (
  linked  timestamptz NOT NULL,
  user_id uuid NOT NULL REFERENCES tickwise.users ON DELETE CASCADE,
  issuer  text NOT NULL,
  subject text NOT NULL,
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_user ON tickwise.identities (user_id);

CREATE TABLE tickwise.sign_ins (
  expires timestamptz NOT NULL,
  digest  bytea PRIMARY KEY,         -- SHA-256 of the state
  browser bytea NOT NULL,            -- SHA-256 of the secret that the browser keeps
  back    text NOT NULL
);
CREATE INDEX sign_ins_expires ON tickwise.sign_ins (expires);

CREATE TABLE tickwise.provider_sessions (
  session_id uuid PRIMARY KEY REFERENCES tickwise.browser_sessions ON DELETE CASCADE,
  issuer     text NOT NULL,
  subject    text NOT NULL,
  session    text                    -- sid, of the provider
);
CREATE INDEX provider_sessions_subject ON tickwise.provider_sessions (issuer, subject);
CREATE INDEX provider_sessions_session ON tickwise.provider_sessions (issuer, session);

CREATE TABLE tickwise.logout_tokens (
  expires timestamptz NOT NULL,
  digest  bytea PRIMARY KEY          -- SHA-256 of issuer and jti
);
CREATE INDEX logout_tokens_expires ON tickwise.logout_tokens (expires);
