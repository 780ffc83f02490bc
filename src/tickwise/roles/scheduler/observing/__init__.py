"""Looks at what is on record: objectives that burn, runs unlike others, the jobs of status pages."""
