package import FoundationEssentials
package import Postgres
package import SyncModel

/// Adds a feature's rows to the engine's transactions.
///
/// The rows are committed with the changes that they report, or not at all.
///
/// A participant takes no locks for which another transaction waits. Therefore its queries can run at any point of a
/// transaction. The engine holds locks while it calls a participant, so a participant must not wait for anything. The
/// engine calls participants only in commits with mutations that failed or got into conflict, and in commits that
/// complete an erasure.
package protocol CommitParticipant: Sendable {
    /// Returns the queries for mutations of a group that failed or are in conflict.
    ///
    /// - Parameter outcomes: at least one; the outcomes of a lane are in the user's order.
    func queries(for outcomes: [FailedOutcome], at moment: Timestamp) -> [Query]

    /// Returns the queries for erased users, in the transaction that completes the erasure.
    func queries(forErased users: [UUID], of organization: UUID, at moment: Timestamp) -> [Query]
}

/// A mutation that a transaction commits as failed or in conflict.
package struct FailedOutcome: Sendable {
    package enum Origin: Sendable {
        /// The mutation got its status when it was pushed.
        case push(NewMutation)
        /// The mutation got its status when its lane ran it.
        case lane(LaneOutcome)
    }

    package let lane: LaneKey
    /// The lane after the change.
    package let state: LaneState
    package let origin: Origin
}

extension [any CommitParticipant] {
    /// Returns the queries of all participants. In most transactions no mutation fails, and the result is empty.
    func queries(for outcomes: [FailedOutcome], at moment: Timestamp) -> [Query] {
        outcomes.isEmpty ? [] : flatMap { $0.queries(for: outcomes, at: moment) }
    }
}
