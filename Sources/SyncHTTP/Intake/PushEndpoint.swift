import HTTPTypes
import SyncModel
import SyncStore
import Telemetry

/// `POST /v1/mutations`: takes a batch in, answers what became of each mutation.
struct PushEndpoint: Sendable {
    let store: Store
    let bodies: BodyReader
    let limits: IntakeLimits
    let longestWait: Duration
    private let gate = IntakeGate(capacity: Self.decodedBytes)
    private let metrics = PushMetrics()
    /// Bodies that are decoded at the same time, in bytes: some hundreds of full pushes, or thousands of small ones.
    private static let decodedBytes = 4_194_304

    init(store: Store, bodies: BodyReader, limits: IntakeLimits, longestWait: Duration) {
        self.store = store
        self.bodies = bodies
        self.limits = limits
        self.longestWait = longestWait
    }

    func push(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try Query(of: exchange)
        let preferences = Preferences(exchange.headers, longestWait: longestWait)
        do {
            return try await bodies.withBody(of: exchange) { body in
                let accepted = try await gate.admit(body.count) {
                    try await accept(body, exchange, caller, preferences)
                }
                let answer = try await settle(accepted, exchange, caller, preferences)
                return reply(answer, preferences)
            }
        } catch {
            metrics.record(error)
            throw refusal(error, preferences)
        }
    }

    private func accept(
        _ body: [UInt8],
        _ exchange: Exchange,
        _ caller: Caller,
        _ preferences: Preferences
    ) async throws -> PushAnswer {
        let limits = limits
        let push = try await LongWork.read(body) { body throws(Problem) in try PushRequest(body: body, limits: limits) }
        let answer = try await store.pushes.submit(
            push,
            organization: caller.organization,
            user: caller.user,
            isStrict: preferences.isStrict ?? false,
            traceparent: traceparent(of: exchange)
        )
        metrics.record(answer)
        return answer
    }

    /// The trace that the request belongs to, if it says so in a form that can be passed on.
    private func traceparent(of exchange: Exchange) -> String? {
        let text = exchange.headers[.traceparent]
        return text.flatMap { TraceContext(traceparent: $0) } == nil ? nil : text
    }

    /// Waits if the caller asked for it. What is accepted stays accepted, so a wait that ends early is no failure.
    private func settle(
        _ answer: PushAnswer,
        _ exchange: Exchange,
        _ caller: Caller,
        _ preferences: Preferences
    ) async throws -> PushAnswer {
        guard let wait = preferences.wait, wait > .zero, !answer.unsettled.isEmpty else { return answer }
        let settled = try? await ClientPresence.whileWaited(on: exchange.channel) {
            try await store.mutations.refresh(
                answer,
                organization: caller.organization,
                user: caller.user,
                wait: wait
            )
        }
        return settled ?? answer
    }

    private func reply(_ answer: PushAnswer, _ preferences: Preferences) -> Answer {
        let isSettled = answer.verdicts.allSatisfy(\.status.isSettled) || answer.unsettled.isEmpty
        var reply = Answer(isSettled ? .ok : .accepted, json: answer.json())
        if let applied = preferences.applied { reply.headers[.preferenceApplied] = applied }
        return reply
    }

    /// A strict push that is refused was handled strictly, and says so.
    private func refusal(_ error: any Error, _ preferences: Preferences) -> any Error {
        guard let problem = error as? Problem, problem.code == .validationFailed, preferences.isStrict == true else {
            return error
        }
        return Refusal(problem, headers: [.preferenceApplied: "handling=strict"])
    }
}
