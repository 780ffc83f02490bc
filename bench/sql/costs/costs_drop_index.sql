-- An index is left out.
DROP INDEX tickwise.{index};
