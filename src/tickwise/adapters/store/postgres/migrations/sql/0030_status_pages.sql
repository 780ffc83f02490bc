-- Status pages for people without an account: what is public of chosen jobs, what looks found, what people announce.

CREATE TABLE tickwise.status_pages (
  created_at timestamptz NOT NULL,
  looked_at  timestamptz,
  version    int NOT NULL DEFAULT 1,
  looks      int NOT NULL DEFAULT 0,
  enabled    boolean NOT NULL,
  page_id    uuid PRIMARY KEY,
  namespace  text NOT NULL,
  slug       text NOT NULL UNIQUE,
  title      text NOT NULL,
  created_by text NOT NULL,
  choices    text NOT NULL,                -- JSON: components and what is shown of them
  states     text NOT NULL                 -- JSON: by the name of the component, as of the last look
);
CREATE INDEX status_pages_namespace ON tickwise.status_pages (namespace);

-- Seconds of each state, by day in UTC.
CREATE TABLE tickwise.status_days (
  page_id     uuid NOT NULL REFERENCES tickwise.status_pages ON DELETE CASCADE,
  operational float8 NOT NULL,
  late        float8 NOT NULL,
  degraded    float8 NOT NULL,
  down        float8 NOT NULL,
  day         date NOT NULL,
  component   text NOT NULL,
  PRIMARY KEY (page_id, component, day)
);

CREATE TABLE tickwise.status_announcements (
  starts_at       timestamptz NOT NULL,
  ends_at         timestamptz,
  version         int NOT NULL DEFAULT 1,
  announcement_id uuid PRIMARY KEY,
  page_id         uuid NOT NULL REFERENCES tickwise.status_pages ON DELETE CASCADE,
  kind            text NOT NULL,
  title           text NOT NULL,
  created_by      text NOT NULL,
  components      text[] NOT NULL,
  updates         text NOT NULL            -- JSON, the oldest first
);
CREATE INDEX status_announcements_page ON tickwise.status_announcements (page_id);
