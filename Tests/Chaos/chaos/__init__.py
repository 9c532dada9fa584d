"""What scripts/chaos is made of: lanes that push, an upstream that misbehaves, faults, and a checker of it all."""
