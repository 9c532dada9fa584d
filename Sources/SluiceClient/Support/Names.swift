// Names for an app, or another library, that also has a `JSON` or a `Problem`: the module's name would not distinguish
// them, because the class has the same name.

/// ``JSON``, where that name means something else.
public typealias SluiceJSON = JSON
/// ``Outcome``, where that name means something else.
public typealias SluiceOutcome = Outcome
/// ``Problem``, where that name means something else.
public typealias SluiceProblem = Problem
/// ``Write``, where that name means something else.
public typealias SluiceWrite = Write
