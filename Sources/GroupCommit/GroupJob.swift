package import SyncModel

/// One piece of work on one lane that is committed together with others.
package protocol GroupJob: Sendable {
    /// A lane takes part in a group once.
    var lane: LaneKey { get }
    /// Its part of a group's bound on mutations.
    var weight: Int { get }
    /// Its part of a group's bound on bytes.
    var bytes: Int { get }
    var enqueuedAt: ContinuousClock.Instant { get }
    /// Whether its caller has stopped waiting.
    var isAnswered: Bool { get }
    /// Answers that it was not done.
    func refuse(_ problem: Problem)
}
