"""A real S3 server for the tests: a light one from npm, or a whole one that Go builds."""
