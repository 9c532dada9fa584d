// Nothing to call: what width.c does happens when the tests' process starts.
