/// A mutation at the head of a lane, and its surroundings.
struct DispatchDecision {
    let mutation: QueuedMutation
    let surroundings: DispatchPlanner.LaneContext
    let lease: LaneLease
    /// The entity's permanent id.
    ///
    /// Nil for a create whose entity gets one, and where the id is not known.
    let own: ServerID?

    init(_ mutation: QueuedMutation, _ surroundings: DispatchPlanner.LaneContext, _ lease: LaneLease) {
        self.mutation = mutation
        self.surroundings = surroundings
        self.lease = lease
        own = surroundings.serverID(of: mutation)
    }

    /// - Throws: the reason why the mutation can never run as it is.
    func decision(now: Timestamp, heldUntil: Timestamp?) throws(Problem) -> DispatchPlanner.Decision {
        if let problem = Problem.unreadable(mutation) { throw problem }
        if let due = mutation.nextRetryAt, due > now { return .hold(until: due) }
        try checkTypes()
        if mutation.operation != .create, own == nil {
            throw Problem(.dependencyRejected, "the entity it changes has no server id")
        }
        guard surroundings.type.isForwarded else {
            return .run(dispatch(to: .builtIn(payload: try body(instead: nil) ?? [])))
        }
        if let conflict = versionConflict() { return conflict }
        if let heldUntil, heldUntil > now { return .hold(until: heldUntil) }
        guard let upstream = surroundings.organization.upstream else {
            return .hold(until: now.adding(seconds: DispatchPlanner.pauseWithoutUpstream))
        }
        return .run(dispatch(to: .upstream(try request(to: upstream), upstream)))
    }

    /// The outcome of a mutation that can never run.
    ///
    /// It does not cover an earlier attempt, which may have taken effect all the same.
    func failure(_ problem: Problem) -> Outcome {
        var outcome = unsent(.failed, .rejected, serverID: nil)
        outcome.error = problem.json
        outcome.lastError = problem.detail
        return outcome
    }

    /// An outcome for which no request is sent, so that no attempt is spent.
    func unsent(_ status: MutationStatus, _ kind: Outcome.Kind, serverID: ServerID?) -> Outcome {
        var outcome = Outcome(
            status,
            kind,
            of: Dispatch(of: mutation, surroundings, serverID: serverID, to: .builtIn(payload: []))
        )
        outcome.attemptCount = mutation.attemptCount
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        return outcome
    }

    private func dispatch(to destination: Dispatch.Destination) -> Dispatch {
        Dispatch(of: mutation, surroundings, serverID: own, to: destination)
    }
}
