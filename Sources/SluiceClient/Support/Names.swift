// Names for an app, or a library beside this one, that has a `JSON` or a `Problem` as well: the module's own name would
// not tell them apart, since the class has it too.

/// ``JSON``, where that name means something else.
public typealias SluiceJSON = JSON
/// ``Outcome``, where that name means something else.
public typealias SluiceOutcome = Outcome
/// ``Problem``, where that name means something else.
public typealias SluiceProblem = Problem
/// ``Write``, where that name means something else.
public typealias SluiceWrite = Write
