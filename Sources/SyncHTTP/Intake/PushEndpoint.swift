package import HTTPTypes
package import SyncModel
package import SyncStore

/// `POST /v1/mutations`: accepts a batch, and returns each mutation's result.
///
/// `POST /v1/mutations/preview`: returns the results that the batch would have. Both read bodies within one budget.
package struct PushEndpoint: Sendable {
    package let store: Store
    package let bodies: BodyReader
    package let limits: IntakeLimits
    package let longestWait: Duration
    /// Limits the bodies decoded at a time.
    package let gate: AdmissionController
    private let metrics = PushMetrics()

    package init(
        store: Store,
        bodies: BodyReader,
        gate: AdmissionController,
        limits: IntakeLimits,
        longestWait: Duration
    ) {
        self.store = store
        self.bodies = bodies
        self.gate = gate
        self.limits = limits
        self.longestWait = longestWait
    }

    package func push(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let preferences = Preferences(exchange.headers, longestWait: longestWait)
        do {
            let committed = try await bodies.withBody(of: exchange) { body in
                let answer = try await withPush(body, of: exchange) {
                    try await commit($0, exchange, caller, preferences)
                }
                guard waits(for: answer, preferences) else { return await answer.fitting(exchange.hold) }
                // a committed push needs its body no more, and no room as long as its response is small
                guard answer.isLarge else {
                    exchange.hold.release()
                    return answer.withoutBody()
                }
                return await answer.withoutBody().fitting(exchange.hold)
            }
            return reply(to: await settle(committed, exchange, caller, preferences), preferences)
        } catch {
            throw refused(error, preferences)
        }
    }

    package func preview(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let preferences = Preferences(exchange.headers, longestWait: longestWait).withoutWait
        do {
            let json = try await bodies.withBody(of: exchange) { body in
                try await withPush(body, of: exchange) { push in
                    try await exchange.hold.acquire(ResponseMemoryLease.preview, isPage: true)
                    return try await BlockingWork.run(on: body.count) {
                        try await store.previews.preview(
                            push,
                            organization: caller.organization,
                            user: caller.user,
                            isStrict: preferences.isStrict ?? false
                        ).json()
                    }
                }
            }
            return answer(.ok, json, preferences)
        } catch {
            throw refusal(error, preferences)
        }
    }

    /// Decodes a push once there is room for it, and keeps the room until `use` returns.
    private func withPush<Value>(
        _ body: [UInt8],
        of exchange: Exchange,
        _ use: (PushRequest) async throws -> Value
    ) async throws -> Value {
        let limits = limits
        return try await gate.admit(body.count, for: exchange.user) {
            let push = try await BlockingWork.read(body) { body throws(Problem) in
                try PushRequest(body: body, limits: limits)
            }
            return try await use(push)
        }
    }

    private func commit(
        _ push: PushRequest,
        _ exchange: Exchange,
        _ caller: Caller,
        _ preferences: Preferences
    ) async throws -> PushAnswer {
        // before the commit, after which a lack of room may refuse nothing
        try await exchange.hold.extend(to: WorkCost.answer(to: push))
        let answer = try await store.pushes.submit(
            push,
            organization: caller.organization,
            user: caller.user,
            isStrict: preferences.isStrict ?? false,
            traceparent: traceparent(of: exchange.headers)
        )
        metrics.record(answer)
        return answer
    }

    /// The request's trace context, if any, in the form that can be stored: additions of later header versions are
    /// left out.
    package func traceparent(of headers: HTTPFields) -> String? {
        headers[.traceparent].flatMap { TraceContext(traceparent: $0) }?.traceparent
    }

    private func waits(for answer: PushAnswer, _ preferences: Preferences) -> Bool {
        (preferences.wait ?? .zero) > .zero && !answer.unsettled.isEmpty
    }

    /// Waits if the caller asked for it.
    ///
    /// The push stays accepted, so a wait that ends early, or for which there is no room, is no failure.
    private func settle(
        _ answer: PushAnswer,
        _ exchange: Exchange,
        _ caller: Caller,
        _ preferences: Preferences
    ) async -> PushAnswer {
        guard let wait = preferences.wait, waits(for: answer, preferences) else { return answer }
        let settled = try? await ClientPresence.whileWaited(on: exchange) {
            try await store.mutations.refresh(
                answer,
                organization: caller.organization,
                user: caller.user,
                wait: wait
            )
        }
        return await (settled ?? answer).fitting(exchange.hold)
    }

    private func reply(to answer: PushAnswer, _ preferences: Preferences) -> Answer {
        let isSettled = answer.verdicts.allSatisfy(\.status.isSettled) || answer.unsettled.isEmpty
        var reply = self.answer(isSettled ? .ok : .accepted, answer.json(), preferences)
        reply.standing = answer.standing
        return reply
    }

    /// Counts a push that was committed and waits for nothing more, and returns its response.
    package func accepted(_ answer: PushAnswer, _ preferences: Preferences) -> Answer {
        metrics.record(answer)
        return reply(to: answer, preferences)
    }

    /// Counts a push that was not committed, and returns the error for its response.
    package func refused(_ error: any Error, _ preferences: Preferences) -> any Error {
        metrics.record(error)
        return refusal(error, preferences)
    }

    private func answer(_ status: HTTPResponse.Status, _ json: [UInt8], _ preferences: Preferences) -> Answer {
        var reply = Answer(status, json: json)
        if let applied = preferences.applied { reply.headers[.preferenceApplied] = applied }
        return reply
    }

    /// A strict push that is refused was handled strictly, and the response's header states that.
    private func refusal(_ error: any Error, _ preferences: Preferences) -> any Error {
        guard let problem = error as? Problem, problem.code == .validationFailed, preferences.isStrict == true else {
            return error
        }
        return Refusal(problem, headers: [.preferenceApplied: "handling=strict"])
    }
}

extension PushAnswer {
    /// Returns the response with as much of its contents as there is room for; nil if there is too little without them.
    ///
    /// A client can read each mutation separately.
    package func fittingAtOnce(_ hold: ResponseMemoryLease) -> PushAnswer? {
        if hold.tryAcquire(contentBytes == 0 ? leastBytes : estimatedBytes) { return self }
        let answer = withoutLarge
        return hold.tryAcquire(answer.leastBytes) ? answer : nil
    }

    /// Returns the response with as much of its contents as there is room for, once there is room for the rest.
    ///
    /// The push is accepted, so the response is sent even if room does not come in time. It is counted then, and the
    /// organization's next requests wait for it.
    package func fitting(_ hold: ResponseMemoryLease) async -> PushAnswer {
        if let answer = fittingAtOnce(hold) { return answer }
        try? await hold.extend(to: leastBytes)
        return withoutLarge
    }

    /// Whether it has contents, or more id mappings than a response without a reservation may have.
    fileprivate var isLarge: Bool {
        contentBytes > 0 || mappings.count * ResponseMemoryLease.mapping > ResponseMemoryLease.small
    }

    private var withoutLarge: PushAnswer {
        var answer = withoutContents()
        answer.contentRoom = 0
        return answer
    }
}
