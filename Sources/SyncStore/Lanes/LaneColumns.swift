// The rows that a group's lane statements take in.
