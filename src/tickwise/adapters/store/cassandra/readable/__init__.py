"""The readable tables of keepers in Cassandra.

tables      makes them, and makes them anew: a generation each
rows        the statement of each row, and its values as bytes
writing     `CassandraTables`, the port `ReadableTables`
listings    runs of a job, attempts and audit entries, as the store's port gives them
"""
