"""The durable truth: `memory` for tests and simulation, `postgres` for everything else. One suite judges both."""
