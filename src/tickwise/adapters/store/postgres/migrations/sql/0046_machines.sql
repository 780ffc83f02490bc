-- Sign-in without a stored key: requests of devices that a person approves, and trust in the tokens of other issuers.

CREATE TABLE tickwise.device_sign_ins (
  created          timestamptz NOT NULL,
  expires          timestamptz NOT NULL,
  polled           timestamptz,
  interval_seconds float8 NOT NULL,
  generation       bigint,              -- of the person
  approved         boolean,             -- NULL: it waits for a decision
  device_id        uuid PRIMARY KEY,
  user_id          uuid REFERENCES tickwise.users ON DELETE CASCADE,   -- who decided
  family           uuid,                -- the session that it has begun
  digest           bytea NOT NULL UNIQUE,   -- SHA-256 of the device code
  user_code        text NOT NULL UNIQUE,
  client           text NOT NULL,
  address          text NOT NULL,
  scope            text[],
  namespace        text
);
CREATE INDEX device_sign_ins_expires ON tickwise.device_sign_ins (expires);
CREATE INDEX device_sign_ins_user ON tickwise.device_sign_ins (user_id);

-- A federation is a key whose secret nobody has: tokens of the issuer stand in its place.
CREATE TABLE tickwise.federations (
  created          timestamptz NOT NULL,
  lifetime_seconds float8 NOT NULL,
  single_use       boolean NOT NULL,
  key_id           uuid PRIMARY KEY REFERENCES tickwise.keys (key_id) ON DELETE CASCADE,
  issuer           text NOT NULL,
  audience         text NOT NULL,
  conditions       jsonb NOT NULL,      -- claim: pattern
  key_set          text                 -- JWKS; NULL: the issuer's, by discovery
);
CREATE INDEX federations_issuer ON tickwise.federations (issuer);

-- Tokens of issuers that were exchanged and may be exchanged once.
CREATE TABLE tickwise.used_assertions (
  expires     timestamptz NOT NULL,
  exchange_id uuid NOT NULL,
  digest      bytea PRIMARY KEY         -- SHA-256 of the federation and the token's jti
);
CREATE INDEX used_assertions_expires ON tickwise.used_assertions (expires);
