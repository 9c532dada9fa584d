"""What scripts/bench is made of: a Postgres, a gateway, runs against both, and their comparison."""
