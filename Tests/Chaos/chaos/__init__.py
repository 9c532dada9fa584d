"""The parts of scripts/chaos: lanes that push, an upstream that misbehaves, faults, and a checker of the evidence."""
