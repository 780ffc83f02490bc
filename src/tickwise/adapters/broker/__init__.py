"""Named channels between roles that run apart: in memory for tests and worlds, over Kafka in production."""
