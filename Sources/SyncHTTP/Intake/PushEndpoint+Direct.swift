import HTTPTypes
import NIOCore
import SyncModel
import SyncStore
import Telemetry

extension PushEndpoint {
    /// Begins a push whose response requires only the commit.
    ///
    /// Leaves all others to ``push(_:_:)``, also those that it would refuse: they are rare, and refused in one place.
    ///
    /// - Returns: whether it has begun; if not, nothing has happened.
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
            traceparent: traceparent(of: exchange.headers)
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

    /// Responds; after a further read or a wait for room, if a committed push requires it.
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

/// The room of a push that is answered directly, from its body until it is committed.
private struct PushReservation: Sendable {
    private let bytes: Int
    private let user: LaneKey
    private let bodies: FairBudget
    private let gate: AdmissionController

    /// Reserves room; nil if a part of it would require waiting, or would be refused.
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
