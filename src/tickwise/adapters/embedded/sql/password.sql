-- Sets the password of the product's role anew, when the file that kept it was lost. Runs in single-user mode;
-- {password} is 64 hexadecimal digits that we made.
ALTER ROLE tickwise PASSWORD '{password}';

