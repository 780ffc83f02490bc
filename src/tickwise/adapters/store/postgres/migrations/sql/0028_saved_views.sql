-- Filters of the lists of pages, saved under a name: of one credential, or ('') for all of the namespace. Only pages read and write them.

CREATE TABLE tickwise.saved_views (
  saved     timestamptz NOT NULL,
  namespace text NOT NULL,
  owner     text NOT NULL,
  path      text NOT NULL,
  name      text NOT NULL,
  query     text NOT NULL,
  saved_by  text NOT NULL,
  PRIMARY KEY (namespace, owner, path, name)
);
