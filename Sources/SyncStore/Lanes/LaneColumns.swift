// The input rows of a group's lane statements.
