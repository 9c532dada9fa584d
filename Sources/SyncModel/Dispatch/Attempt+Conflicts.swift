import JSONText

/// The outcomes of a mutation that met another writer's state upstream.
///
/// Product rule 12.
extension Attempt {
    /// Whether a 409 may mean that the upstream has not finished an earlier attempt.
    ///
    /// That attempt had the same idempotency key.
    func mayBeEcho(_ response: UpstreamResponse) -> Bool {
        (response.retryAt != nil || mutation.isOutcomeUnknown)
            && mutation.conflictRetries < RetryPolicy.conflictRetries
    }

    func echo(_ response: UpstreamResponse) -> Outcome {
        var outcome = again(.deferred, response.words, response)
        outcome.conflictRetries += 1
        return outcome
    }

    func conflict(_ response: UpstreamResponse) -> Outcome {
        let found = UpstreamEntity(in: response, idPointer: upstream.idPointer)
        // an answer to an update shows the entity only if it has the entity's id
        let isShown = mutation.operation == .create || found?.id.text == dispatch.serverID?.text
        let shown = isShown ? found : nil
        var outcome = refusal(.conflict, .conflict, response)
        var problem = Problem(.conflict, response.words)
        if let id = shown?.id ?? dispatch.serverID, let document = shown?.document {
            let etag = etag(of: id, response)
            problem.current =
                CurrentEntity(
                    type: mutation.entity.type,
                    id: id,
                    // which entity a create meets is not known before
                    feedVersion: mutation.operation == .create ? nil : dispatch.entityVersion ?? 0,
                    etag: etag,
                    document: document
                ).json
        }
        outcome.error = problem.json
        // a revision that overrode a conflict once and conflicts again waits for a person
        guard mutation.resolution == nil else {
            outcome.resolution = nil
            return outcome
        }
        switch mutation.conflictResolution {
        case .manual: return outcome
        case .serverWins: return adopted(outcome, shown, response)
        case .clientWins: return overridden(outcome, shown)
        }
    }

    /// The ETag of the conflicting entity, where the request was for that entity alone.
    private func etag(of id: ServerID, _ response: UpstreamResponse) -> String? {
        id.isSegment(of: request.path) ? response.etag : nil
    }

    private func adopted(_ conflict: Outcome, _ shown: UpstreamEntity?, _ response: UpstreamResponse) -> Outcome {
        guard let id = dispatch.serverID ?? shown?.id else { return conflict }
        var outcome = conflict
        outcome.status = .discarded
        outcome.kind = .discarded
        outcome.resolution = .serverWins
        outcome.serverID = id
        if let document = shown?.document { outcome.entity = .document(document, etag: etag(of: id, response)) }
        outcome.evidence = .adopted
        return outcome
    }

    private func overridden(_ conflict: Outcome, _ shown: UpstreamEntity?) -> Outcome {
        let id = dispatch.serverID ?? shown?.id
        let override = ClientWins.plan(
            operation: mutation.operation,
            idSpace: dispatch.type.idSpace,
            endpoint: request.path,
            payload: request.body.flatMap { try? JSONTree(parsing: $0).root },
            current: shown?.document,
            serverID: id
        )
        // an answer to a PUT need not show the state that the request overwrote
        return override.map { conflict.overridden(by: $0, of: id) } ?? conflict
    }
}
