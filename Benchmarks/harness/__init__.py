"""The parts of scripts/bench: a Postgres, a gateway, runs against both, and their comparison."""
