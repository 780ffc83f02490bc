-- Gives a new cluster the product's own role and its database. Runs once, in single-user mode, where the superuser
-- needs no password; a blank line ends a command there. {password} is 64 hexadecimal digits that we made.
CREATE ROLE tickwise LOGIN NOSUPERUSER PASSWORD '{password}';

CREATE DATABASE tickwise OWNER tickwise;

