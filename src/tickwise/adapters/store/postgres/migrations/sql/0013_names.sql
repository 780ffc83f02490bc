-- Looks of names, and what a password is bound to. Programs of before write neither: a person that they add has no looks until
-- one of these gives it some, and a password that they store is bound to nothing, as before.

ALTER TABLE tickwise.users
  ADD COLUMN looks text[],              -- skeletons of the name; two people with one in common have names that look alike
  ADD COLUMN password_limit jsonb;      -- {"namespace", "permissions"} of who chose the password, or could have; NULL: no bound

ALTER TABLE tickwise.user_links
  ADD COLUMN password_limit jsonb;      -- of its maker, who is told the secret
