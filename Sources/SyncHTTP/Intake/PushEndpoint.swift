import HTTPTypes
import Metrics
import NIOCore
import Spans
package import SyncModel
package import SyncStore
import Telemetry

/// `POST /v1/mutations`: accepts a batch, and returns each mutation's result.
///
/// `POST /v1/mutations/preview`: returns the results that the batch would have. The two endpoints share one budget for
/// bodies.
package struct PushEndpoint: Sendable {
    package let store: Store
    package let bodies: BodyReader
    package let limits: IntakeLimits
    package let longestWait: Duration
    /// Limits the number of bodies that are decoded concurrently.
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
                // a committed push no longer needs its body, and a small response needs no memory reservation while it
                // waits
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

    /// Decodes a push once its memory is reserved, and keeps the reservation until `use` returns.
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
        // the response's memory is reserved before the commit, because a committed push must not be refused for lack of
        // memory
        try await exchange.hold.extend(to: WorkCost.answer(to: push))
        let answer = try await store.pushes.submit(
            push,
            organization: caller.organization,
            user: caller.user,
            isStrict: preferences.isStrict ?? false,
            traceparent: RequestTrace.unrecorded(exchange.headers),
            span: Spans.push(push, caller, within: Spans.current)
        )
        metrics.record(answer)
        return answer
    }

    private func waits(for answer: PushAnswer, _ preferences: Preferences) -> Bool {
        (preferences.wait ?? .zero) > .zero && !answer.unsettled.isEmpty
    }

    /// Delays the response if the caller requested it.
    ///
    /// The push is already accepted. Therefore errors of the wait, such as a lack of capacity, are ignored.
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
        reply.quotaStatus = answer.quotaStatus
        return reply
    }

    /// Counts a push that was committed and no longer waits, and returns its response.
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

    /// Returns the error of a refused push. If the push was strict and failed validation, the response has the header
    /// `Preference-Applied: handling=strict`.
    private func refusal(_ error: any Error, _ preferences: Preferences) -> any Error {
        guard let problem = error as? Problem, problem.code == .validationFailed, preferences.isStrict == true else {
            return error
        }
        return Refusal(problem, headers: [.preferenceApplied: "handling=strict"])
    }
}

extension PushAnswer {
    /// Returns the response with its contents (the large parts of the results), or without the contents if the
    /// available memory is insufficient.
    ///
    /// Returns nil if the memory is insufficient even without the contents. A client can get omitted contents by
    /// reading each mutation separately.
    package func fittingAtOnce(_ hold: ResponseMemoryLease) -> PushAnswer? {
        if hold.tryAcquire(contentBytes == 0 ? leastBytes : estimatedBytes) { return self }
        let answer = withoutLarge
        return hold.tryAcquire(answer.leastBytes) ? answer : nil
    }

    /// Returns the response like ``fittingAtOnce(_:)``, but waits for memory if necessary.
    ///
    /// After the wait, the response has no contents. The push is accepted, so the response is sent even if the memory
    /// is not available in time. In this case the response exceeds the budget, and the organization's next requests
    /// wait until the memory of the response is released.
    package func fitting(_ hold: ResponseMemoryLease) async -> PushAnswer {
        if let answer = fittingAtOnce(hold) { return answer }
        try? await hold.extend(to: leastBytes)
        return withoutLarge
    }

    /// Whether the response has contents, or more id mappings than are allowed without a reservation.
    fileprivate var isLarge: Bool {
        contentBytes > 0 || mappings.count * ResponseMemoryLease.mapping > ResponseMemoryLease.small
    }

    private var withoutLarge: PushAnswer {
        var answer = withoutContents()
        answer.contentRoom = 0
        return answer
    }
}

extension PushEndpoint {
    /// Begins a push if its response requires nothing but the commit.
    ///
    /// All other pushes are left to ``push(_:_:)``. This includes pushes that must be refused: such pushes are rare,
    /// and only one place in the code should refuse pushes.
    ///
    /// - Returns: whether the push has begun. If it has not, nothing was changed.
    package func pushDirectly(_ exchange: DirectExchange, _ caller: Caller) -> Bool {
        let preferences = Preferences(exchange.headers, longestWait: longestWait)
        guard preferences.wait == nil, exchange.headers[.expect] == nil,
            (try? MediaType.requireJSON(exchange.headers)) != nil,
            let room = PushReservation(exchange.body.count, of: exchange.user, bodies, gate)
        else { return false }
        guard let push = try? PushRequest(body: exchange.body, limits: limits),
            exchange.hold.tryAcquire(WorkCost.answer(to: push))
        else {
            room.release()
            return false
        }
        let hasBegun = store.pushes.submitAtOnce(
            push,
            organization: caller.organization,
            user: caller.user,
            isStrict: preferences.isStrict ?? false,
            traceparent: RequestTrace.unrecorded(exchange.headers),
            span: Spans.push(push, caller, within: exchange.trace)
        ) { result in
            exchange.eventLoop.execute {
                room.release()
                complete(result, exchange, preferences)
            }
        }
        if !hasBegun {
            room.release()
            exchange.hold.release()
        }
        return hasBegun
    }

    /// Responds to a push. If the push was committed, the response may first require a further read or a wait for
    /// memory.
    private func complete(
        _ result: Result<PushAnswer, Problem>,
        _ exchange: DirectExchange,
        _ preferences: Preferences
    ) {
        switch result {
        case .failure(let problem):
            exchange.reply(.failure(refused(problem, preferences)))
        case .success(let answer):
            if store.pushes.isComplete(answer), let fitting = answer.fittingAtOnce(exchange.hold) {
                exchange.reply(.success(accepted(fitting, preferences)))
                return
            }
            Task(executorPreference: EventLoopExecutor(exchange.eventLoop)) {
                let completed = await LogContext.$current.withValue(exchange.context) {
                    await store.pushes.completed(answer, of: exchange.user).fitting(exchange.hold)
                }
                exchange.eventLoop.execute { exchange.reply(.success(accepted(completed, preferences))) }
            }
        }
    }
}

/// The memory reservation of a push that is answered directly, from its body until its commit.
private struct PushReservation: Sendable {
    private let bytes: Int
    private let user: LaneKey
    private let bodies: FairBudget
    private let gate: AdmissionController

    /// Reserves memory. Returns nil if the reservation would have to wait, or would be refused.
    package init?(_ bytes: Int, of user: LaneKey, _ bodies: BodyReader, _ gate: AdmissionController) {
        self.bytes = bytes
        self.user = user
        self.bodies = bodies.budget
        self.gate = gate
        guard bytes <= bodies.limit, self.bodies.tryAcquire(bytes, for: user) else { return nil }
        guard gate.tryAcquire(gate.weight(bytes), for: user) else {
            self.bodies.release(bytes, of: user)
            return nil
        }
    }

    package func release() {
        gate.release(gate.weight(bytes), of: user)
        bodies.release(bytes, of: user)
    }
}

/// Counts pushes and the results of their mutations.
package struct PushMetrics: Sendable {
    private let accepted = Counter(label: HTTPMetrics.pushes, dimensions: [("result", "accepted")])
    private let refused = Counter(label: HTTPMetrics.pushes, dimensions: [("result", "refused")])
    private let failed = Counter(label: HTTPMetrics.pushes, dimensions: [("result", "error")])
    private let size = Recorder(label: HTTPMetrics.pushMutations)
    private let fresh = Self.counters(replayed: false)
    private let replayed = Self.counters(replayed: true)

    package func record(_ answer: PushAnswer) {
        accepted.increment()
        size.record(answer.verdicts.count)
        for verdict in answer.verdicts {
            (verdict.isReplay ? replayed : fresh)[verdict.status]?.increment()
        }
    }

    package func record(_ error: any Error) {
        let isOurs = Refusal(of: error).problem.code.status >= 500
        (isOurs ? failed : refused).increment()
    }

    private static func counters(replayed: Bool) -> [MutationStatus: Counter] {
        Dictionary(
            uniqueKeysWithValues: MutationStatus.allCases.map { status in
                let dimensions = [("status", status.rawValue), ("replayed", replayed ? "true" : "false")]
                return (status, Counter(label: HTTPMetrics.mutations, dimensions: dimensions))
            }
        )
    }
}
