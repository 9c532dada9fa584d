import JSONText

/// One request and its possible outcomes.
struct Attempt {
    let dispatch: Dispatch
    let request: UpstreamRequest
    let upstream: UpstreamSettings
    let policy: RetryPolicy
    let othersSucceeded: Bool
    let now: Timestamp
    let jitter: Double

    var mutation: QueuedMutation { dispatch.mutation }

    func outcome(of response: UpstreamResponse) -> Outcome {
        // no rule applies to an answer that refers to a whole batch, and such an answer rejects no single mutation
        if response.isOfBatch { return response.mayNeedOperator ? held(response) : defaultOutcome(of: response) }
        let json = response.json ?? response.unkeptJSON
        if response.isCutOff, json == nil, upstream.readsBody(of: response.status) {
            return lost(response)
        }
        let body = json.flatMap { try? JSONTree(parsing: $0).root }
        if let rule = upstream.outcomeRule(status: response.status, body: body) {
            var outcome = outcome(of: response, by: rule, body)
            // after an incomplete answer the request is sent again, so the rule has not decided
            if !response.isCutOff || outcome.kind != .unreachable { outcome.rule = rule.place }
            return outcome
        }
        return defaultOutcome(of: response)
    }

    /// The outcome of an answer to which none of the operator's rules applies.
    private func defaultOutcome(of response: UpstreamResponse) -> Outcome {
        switch response.status {
        case 200...299: succeeded(response)
        case 404, 410: mutation.operation == .delete ? succeeded(response) : rejected(response)
        case _ where response.mayNeedOperator: othersSucceeded ? rejectedAlone(response) : held(response)
        case 408, 425, 429: again(.deferred, response.words, response)
        case 409: mayBeEcho(response) ? echo(response) : conflict(response)
        case 412: conflict(response)
        case 400...499: rejected(response)
        default: serverError(response)
        }
    }

    /// The outcome of an answer according to an operator's rule.
    private func outcome(of response: UpstreamResponse, by rule: OutcomeRule, _ body: JSONValue?) -> Outcome {
        let message = rule.message(in: body).map { UpstreamResponse.messageMark + $0 } ?? ""
        let cause = "\(response.words), which is '\(rule.verdict.rawValue)' by the rule \(rule.place)"
        let words = cause + message
        switch rule.verdict {
        case .succeeded: return succeeded(response, at: rule.document)
        case .conflict: return conflict(response, at: rule.document, cause, message)
        case .retry:
            var outcome = again(response.status >= 500 ? .serverError : .deferred, words, response)
            if response.status >= 500 { outcome.isOutcomeUnknown = true }
            return outcome
        case .failed, .halt:
            var outcome = failed(.upstreamRejected, words, response)
            outcome.haltsLane = rule.verdict == .halt
            return outcome
        }
    }

    /// The outcome of an incomplete answer. Rules cannot be applied to the body of such an answer.
    private func lost(_ response: UpstreamResponse) -> Outcome {
        var outcome = again(.unreachable, response.words + ", but the response is incomplete", nil)
        outcome.isOutcomeUnknown = true
        return outcome
    }

    // MARK: - Done

    /// - Parameter document: the JSON Pointer to the document, if a rule specifies it; nil for the usual place.
    private func succeeded(_ response: UpstreamResponse, at document: String? = nil) -> Outcome {
        var outcome = Outcome(.succeeded, .succeeded, of: dispatch)
        outcome.responseStatus = Int16(response.status)
        outcome.responseBody = response.storedBody
        // the body of an error describes the error, unless a rule specifies the place of a document in it
        let isDocument = document != nil || (200...299).contains(response.status)
        let shown = isDocument ? entity(in: response, document: document) : nil
        if mutation.operation == .create {
            // the id is known before the answer if the create overrides an entity, or if the client chose the id
            guard let id = dispatch.serverID ?? shown?.id ?? located(response) else { return unnamed(response) }
            outcome.serverID = id
        }
        guard let id = outcome.serverID else { return outcome }
        var response = response
        // an ETag in a 202 is not the ETag of the new state, because the request has not taken effect yet
        if response.status == 202 { response.etag = nil }
        let evidence = UpstreamEvidence(about: id, of: mutation, request, response, shown)
        outcome.etag = evidence.etag
        outcome.demandedETag = request.ifMatch
        (outcome.entity, outcome.evidence) = evidence.change
        return outcome
    }

    /// - Parameter document: the JSON Pointer to the document, if a rule specifies it; nil for the usual place.
    private func entity(in response: UpstreamResponse, document: String? = nil) -> UpstreamEntity? {
        let idPointer = upstream.answerIDPointer
        guard let document else {
            return UpstreamEntity(
                in: response,
                idPointer: idPointer,
                documentPointer: upstream.route?.documentPointer
            )
        }
        let id = dispatch.serverID
        let isNamed = request.namesEntity || id?.isSegment(of: request.path) ?? false
        return UpstreamEntity(
            in: response,
            document: document,
            idPointer: idPointer,
            named: isNamed ? id : nil,
            isNew: id == nil
        )
    }

    private func finding(_ response: UpstreamResponse) -> CreatedLocation.Finding? {
        guard response.status != 202, let location = response.location else { return nil }
        let clientID = mutation.entity.client?.asServerID.text
        return CreatedLocation(upstream, path: request.path, clientID: clientID).finding(in: location)
    }

    /// The entity's id in the `Location` of an answer to a create.
    private func located(_ response: UpstreamResponse) -> ServerID? {
        if case .entity(let id) = finding(response) { id } else { nil }
    }

    /// The outcome of a create that took effect, but whose response lacks the new id.
    ///
    /// If the response was truncated, the request is sent again. If the response was complete, a person must decide
    /// (``SettleSubject/mayHaveTakenEffect``).
    private func unnamed(_ response: UpstreamResponse) -> Outcome {
        if response.isCutOff { return lost(response) }
        var detail = response.words + ", but the response does not identify the new entity: "
        if response.status == 202 {
            detail += "202 means that the create was accepted, but may not be performed (RFC 9110, 15.3.3)."
        } else {
            let place =
                switch finding(response) {
                case nil:
                    switch response.unusedLocation {
                    case nil: "Location is missing"
                    case .several: "the response has several different Locations"
                    case .tooLong: "Location is longer than \(UpstreamResponse.maximumLocationBytes) bytes"
                    }
                case .withoutID: "Location has no id, or a key with several parts"
                case .unreadable: "Location is not valid UTF-8"
                case .elsewhere, .entity: "Location does not point to an entity of the request's collection"
                }
            let cause =
                (200...299).contains(response.status)
                ? "the body \(UpstreamEntity.problem(in: response, idPointer: upstream.answerIDPointer))"
                : "the rule finds no document with an id in the body"
            detail += "\(cause), and \(place)."
        }
        detail += " The create may have been performed. A retry repeats it with the same Idempotency-Key."
        if let excerpt = UpstreamEntity.unusableBody(of: response)?.excerpt, !excerpt.isEmpty {
            detail += UpstreamResponse.excerptMark + excerpt
        }
        var outcome = failed(.upstreamAnswerUnusable, detail, response)
        if response.json == nil { outcome.lastError = detail }
        return outcome
    }

    // MARK: - Refused

    private func rejected(_ response: UpstreamResponse) -> Outcome {
        failed(.upstreamRejected, response.words, response)
    }

    /// The outcome of a definitive answer other than a success.
    func refusal(_ status: MutationStatus, _ kind: Outcome.Kind, _ response: UpstreamResponse) -> Outcome {
        var outcome = Outcome(status, kind, of: dispatch)
        outcome.responseStatus = Int16(response.status)
        outcome.responseBody = response.storedBody
        outcome.lastError = words(response)
        outcome.lastErrorCode = Int16(response.status)
        return outcome
    }

    private func failed(_ code: ProblemCode, _ detail: String, _ response: UpstreamResponse) -> Outcome {
        var outcome = refusal(.failed, .rejected, response)
        outcome.error = Problem(code, detail).json
        return outcome
    }

    // MARK: - Again

    /// The outcome that retries the request after a pause, or fails if all attempts are spent.
    ///
    /// - Parameter reason: the error's text. It does not contain the upstream's body, which is stored only in
    ///   `last_error` and `response`.
    func again(_ kind: Outcome.Kind, _ reason: String, _ response: UpstreamResponse? = nil) -> Outcome {
        var outcome = Outcome(.pending, kind, of: dispatch, isOpen: true)
        outcome.lastError = response.map(words) ?? reason
        outcome.lastErrorCode = response.map { Int16($0.status) }
        guard dispatch.attempts < mutation.maxAttempts else {
            outcome.status = .failed
            outcome.error = Problem.exhausted(dispatch.attempts, String(reason.prefix(200))).json
            return outcome
        }
        outcome.nextRetryAt = policy.nextTry(
            after: dispatch.attempts,
            now: now,
            notBefore: response?.retryAt,
            jitter: jitter
        )
        return outcome
    }

    /// The outcome of a request without a response.
    ///
    /// A held mutation (``AuthBackoff``) remains held, because a missing response does not show whether the operator's
    /// configuration or the mutation itself caused the earlier responses.
    func notAnswered(_ reason: String) -> Outcome {
        var outcome = again(.unreachable, reason)
        if outcome.status == .pending { outcome.hold = mutation.hold }
        return outcome
    }

    private func serverError(_ response: UpstreamResponse) -> Outcome {
        var outcome = again(.serverError, response.words, response)
        outcome.isOutcomeUnknown = true
        return outcome
    }

    /// The outcome that holds the mutation, because the operator's configuration may be the cause of the answer.
    ///
    /// As long as this cause is possible, no attempt is spent.
    private func held(_ response: UpstreamResponse) -> Outcome {
        let hold = AuthBackoff.next(after: mutation.hold, now: now)
        var outcome = Outcome(.pending, .misconfigured, of: dispatch, isOpen: true)
        outcome.attemptCount = mutation.attemptCount
        outcome.hold = hold
        outcome.nextRetryAt = policy.nextTry(after: hold, now: now, notBefore: response.retryAt, jitter: jitter)
        outcome.lastError = words(response)
        outcome.lastErrorCode = Int16(response.status)
        return outcome
    }

    /// The outcome if the upstream rejects this mutation while it accepts other requests.
    ///
    /// If the outcome of an earlier attempt is unknown, it remains unknown. The response does not show this outcome,
    /// because a component in front of the upstream's API may have sent the response.
    private func rejectedAlone(_ response: UpstreamResponse) -> Outcome {
        var outcome = failed(
            .upstreamRejected,
            response.words + ", but has accepted other requests since, so only this request is rejected",
            response
        )
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        return outcome
    }

    // MARK: - Not sent

    /// The outcome if the gateway refuses to send the mutation, and would also refuse each retry.
    ///
    /// No attempt is spent, and the lane continues.
    func refused(_ reason: String) -> Outcome {
        let problem = Problem(.validationFailed, "it cannot be sent: \(reason)")
        var outcome = unsent(.failed, problem.detail)
        outcome.error = problem.json
        return outcome
    }

    /// The outcome if nothing can be sent, because the upstream's settings are incomplete.
    ///
    /// The lane waits, as it does in an organization without an upstream. No attempt is spent.
    func unready(_ reason: String) -> Outcome {
        var outcome = unsent(.pending, "no request can be sent to the upstream: \(reason)")
        outcome.nextRetryAt = now.adding(seconds: DispatchPlanner.pauseWithoutUpstream)
        return outcome
    }

    private func unsent(_ status: MutationStatus, _ reason: String) -> Outcome {
        var outcome = Outcome(status, .refused, of: dispatch, isOpen: true)
        outcome.attemptCount = mutation.attemptCount
        outcome.lastError = reason
        if status == .pending { outcome.hold = mutation.hold }
        return outcome
    }

    /// The text for `last_error`.
    ///
    /// Specification 001 (docs/spec), `last_error`: "Error message or server response body from the most recent failed
    /// attempt".
    private func words(_ response: UpstreamResponse) -> String {
        guard let json = response.json else { return response.words }
        return response.words + ": " + String(decoding: json.prefix(1_000), as: UTF8.self)
    }
}

extension UpstreamResponse {
    /// The response as a sentence, without its body.
    var words: String {
        "the upstream answered \(status)" + (isOfBatch ? " to the batch" : "") + (pointer.map { " (\($0))" } ?? "")
    }
}

/// The outcomes of a mutation that the upstream answers with a conflict (product rule 12).
extension Attempt {
    /// Whether a 409 may mean that the upstream still processes an earlier attempt.
    ///
    /// The earlier attempt had the same idempotency key.
    func mayBeEcho(_ response: UpstreamResponse) -> Bool {
        (response.retryAt != nil || mutation.isOutcomeUnknown)
            && mutation.conflictRetries < RetryPolicy.conflictRetries
    }

    func echo(_ response: UpstreamResponse) -> Outcome {
        var outcome = again(.deferred, response.words, response)
        outcome.conflictRetries += 1
        return outcome
    }

    /// - Parameters:
    ///   - document: the JSON Pointer to the current document, if a rule specifies it; nil for the usual place.
    ///   - words: the response as a sentence; nil for the default sentence.
    ///   - message: the upstream's message, which follows the sentence.
    func conflict(
        _ response: UpstreamResponse,
        at document: String? = nil,
        _ words: String? = nil,
        _ message: String = ""
    ) -> Outcome {
        let shown = conflicting(in: response, document: document)
        var outcome = refusal(.conflict, .conflict, response)
        let isUnidentified = dispatch.serverID == nil && shown == nil
        let unidentified =
            ", but the answer does not identify the existing entity: it contains no id of this entity, or two "
            + "different ids"
        let lack = isUnidentified ? unidentified : ""
        var problem = Problem(.conflict, (words ?? response.words) + lack + message)
        // after `client_wins`, a create whose id the upstream assigns already has the id of the existing entity
        let isAssigned = mutation.operation == .create && dispatch.type.idSpace != .shared
        problem.existingID = dispatch.serverID == nil ? shown?.id : isAssigned ? dispatch.serverID : nil
        if let id = shown?.id ?? dispatch.serverID, let document = shown?.document {
            let etag = etag(of: id, response)
            problem.current =
                CurrentEntity(
                    type: mutation.entity.type,
                    id: id,
                    // nil for a create, because only the answer identifies the entity with which the create is in
                    // conflict
                    feedVersion: mutation.operation == .create ? nil : dispatch.entityVersion ?? 0,
                    etag: etag,
                    document: document
                ).json
        }
        outcome.error = problem.json
        // a revision that overrode a conflict and is in conflict again waits for a person
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

    /// The entity with which the mutation is in conflict; nil if the answer does not identify it.
    ///
    /// If the mutation's entity has an id, only a document with this id is used. The create of an entity without an id
    /// is in conflict with an entity that only the answer can identify. This entity is identified by a document whose
    /// place an operator's rule specifies, or by a `Location` in the request's collection. If both are present and
    /// differ, neither is used. The `id` of the body does not identify the entity, because it may be the id of an
    /// error.
    private func conflicting(in response: UpstreamResponse, document: String?) -> UpstreamEntity? {
        let found = entity(in: response, document: document)
        if let id = dispatch.serverID { return found?.id.text == id.text ? found : nil }
        guard let located = located(response) else { return document == nil ? nil : found }
        if let found, found.id.text == located.text { return found }
        return document == nil || found == nil ? UpstreamEntity(id: located) : nil
    }

    /// The ETag of the conflicting entity; nil if the request did not address exactly this entity.
    private func etag(of id: ServerID, _ response: UpstreamResponse) -> String? {
        request.namesEntity || id.isSegment(of: request.path) ? response.etag : nil
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
        // with routes, the request of each revision is built by a route; therefore a create can overwrite an entity
        // only if the type has a `replace` route
        if upstream.route != nil, mutation.operation == .create, !(dispatch.type.routes?.has(.replace) ?? false) {
            return conflict
        }
        let payload = request.content ?? request.body
        let override = ClientWins.plan(
            operation: mutation.operation,
            idSpace: dispatch.type.idSpace,
            endpoint: request.path,
            payload: payload.flatMap { try? JSONTree(parsing: $0).root },
            current: shown?.document,
            serverID: id
        )
        // if it is not certain that a request would overwrite the right entity, the conflict waits for a person
        guard var override else { return conflict }
        if upstream.route != nil { override.endpoint = nil }
        return conflict.overridden(by: override, of: id)
    }
}
