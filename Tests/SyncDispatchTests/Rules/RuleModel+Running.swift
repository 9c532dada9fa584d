import Foundation
import SyncModel

extension RuleModel {
    /// Classes of upstream answers.
    enum Answer: Sendable, Hashable {
        /// 2xx; the JSON text of the returned id, if there is one.
        case success(id: String?)
        case refusal(status: Int)
        case conflict(status: Int, id: String?, isRetryable: Bool)
        case serverError
        case timeOut
        case notReached
        case tooMany
        /// 401 or a redirect: possibly a configuration error.
        case trouble(status: Int)
    }

    /// The next mutation of a user's lane: the first pending one, unless it waits or the lane is halted.
    func next(of user: User, now: Timestamp) -> Accepted? {
        guard !user.isHalted, let head = user.lane.first(where: { $0.status == .pending }) else { return nil }
        if let due = head.nextTry, due > now { return nil }
        return head
    }

    /// The mutations that may start while others are in flight, in order (product rule 19).
    func startable(of user: User, now: Timestamp) -> [Accepted] {
        guard !user.isHalted else { return [] }
        let flying = user.lane.filter { $0.status == .inFlight }
        return due(of: user, now: now).filter { mutation in
            guard let id = permanentID(of: mutation, user) else { return true }
            return !flying.contains { $0.entry.type == mutation.entry.type && permanentID(of: $0, user) == id }
        }
    }

    /// Pending mutations that wait for no retry, whether or not another of their entity is in flight.
    func due(of user: User, now: Timestamp) -> [Accepted] {
        user.lane.filter { $0.status == .pending && ($0.nextTry.map { $0 <= now } ?? true) }
    }

    /// The id to which a mutation is sent; nil for a create without one.
    private func permanentID(of mutation: Accepted, _ user: User) -> String? {
        if mutation.entry.operation == .create { return mutation.overrides ? mutation.serverID : nil }
        return mutation.serverID
            ?? mutation.entry.local.flatMap { user.mappings[ClientKey(id: $0, type: mutation.entry.type)]?.serverID }
    }

    /// Marks a mutation as in flight: every request is an attempt, except for the built-in store.
    func fly(_ mutation: Accepted) {
        mutation.status = .inFlight
        mutation.nextTry = nil
        if mutation.entry.type.isForwarded { mutation.attempts += 1 }
    }

    /// Applies an answer (product rules 7, 11 and 12).
    mutating func take(_ answer: Answer, to mutation: Accepted, of user: inout User) {
        find(mutation, user)
        let hold = mutation.hold
        mutation.hold = nil
        switch answer {
        case .success(let id):
            if mutation.entry.operation == .create, !mutation.overrides { mutation.serverID = id }
            if mutation.serverID == nil {
                fail(mutation, "upstream_answer_unusable", of: &user)
                mutation.tookEffect = true
                return
            }
            mutation.takenAt = now
            succeed(mutation, of: &user)
        case .refusal(let status):
            if mutation.entry.operation == .delete, status == 404 || status == 410 {
                return succeed(mutation, of: &user)
            }
            fail(mutation, "upstream_rejected", of: &user)
        case .conflict(let status, let id, let isRetryable):
            if status == 409, isRetryable || mutation.isOutcomeUnknown, mutation.echoes < 2 {
                let isUnknown = mutation.isOutcomeUnknown
                tryAgain(mutation, of: &user)
                mutation.isOutcomeUnknown = isUnknown
                mutation.echoes += 1
                return
            }
            conflict(mutation, id, of: &user)
        case .serverError:
            mutation.isOutcomeUnknown = true
            tryAgain(mutation, of: &user)
        case .timeOut, .notReached:
            if answer == .timeOut { mutation.isOutcomeUnknown = true }
            tryAgain(mutation, of: &user)
            if mutation.status == .pending { mutation.hold = hold }
        case .tooMany: tryAgain(mutation, of: &user)
        case .trouble:
            mutation.attempts -= 1
            if let hold, hasSucceeded(since: hold.since) {
                mutation.attempts += 1
                return fail(mutation, "upstream_rejected", of: &user, mutation.isOutcomeUnknown)
            }
            mutation.hold = ((hold?.count ?? 0) + 1, hold?.since ?? now)
            mutation.status = .pending
            let policy = RetryPolicy(cap: 300)
            mutation.nextTry = policy.nextTry(after: Int16(mutation.hold?.count ?? 1), now: now, jitter: 0)
        }
    }

    /// Whether the upstream has accepted a request that was sent after a time. A request accepted earlier may have been
    /// in flight at that time.
    private func hasSucceeded(since moment: Timestamp) -> Bool {
        users.values.flatMap(\.lane).contains { other in
            guard let taken = other.takenAt, taken > moment else { return false }
            return other.acceptedAt > moment || taken > moment.adding(seconds: 30)
        }
    }

    /// Records the entity of a mutation whose turn has come.
    func find(_ mutation: Accepted, _ user: User) {
        guard mutation.entry.operation != .create, mutation.serverID == nil, let local = mutation.entry.local else {
            return
        }
        mutation.serverID = user.mappings[ClientKey(id: local, type: mutation.entry.type)]?.serverID
    }

    /// Applies the loss of the worker, after which the request's outcome is unknown.
    mutating func lose(_ mutation: Accepted, of user: inout User) {
        mutation.status = .pending
        guard mutation.entry.type.isForwarded else { return }
        mutation.isOutcomeUnknown = true
        if mutation.attempts >= mutation.entry.maxAttempts { fail(mutation, "max_attempts_reached", of: &user, true) }
    }

    private mutating func tryAgain(_ mutation: Accepted, of user: inout User) {
        mutation.status = .pending
        guard mutation.attempts < mutation.entry.maxAttempts else {
            return fail(mutation, "max_attempts_reached", of: &user, mutation.isOutcomeUnknown)
        }
        mutation.nextTry = RetryPolicy().nextTry(after: Int16(mutation.attempts), now: now, jitter: 0)
    }

    private mutating func conflict(_ mutation: Accepted, _ id: String?, of user: inout User) {
        let hadItsWay = mutation.resolution != nil
        mutation.code = "conflict"
        // a create that was sent to an existing entity is in conflict with this entity, whose id is known
        mutation.named = mutation.entry.operation == .create && mutation.overrides ? nil : id
        mutation.isOutcomeUnknown = false
        mutation.echoes = 0
        // the entity of a create's earlier conflict does not count, unless the create was sent to that entity
        let aimed = mutation.entry.operation != .create || mutation.overrides ? mutation.serverID : nil
        mutation.overrides = false
        let entity = aimed ?? id
        let strategy = hadItsWay ? .manual : mutation.entry.strategy ?? strategy
        switch strategy {
        case .serverWins where entity != nil:
            mutation.serverID = entity
            mutation.resolution = .serverWins
            end(mutation, .discarded, of: &user)
            resolve(mutation, in: &user)
            release(mutation, in: &user)
        case .clientWins where mutation.entry.operation != .create || entity != nil:
            mutation.serverID = entity
            mutation.resolution = .clientWins
            mutation.overrides = true
            mutation.revision += 1
            mutation.attempts = 0
            mutation.status = .pending
        default:
            mutation.resolution = nil
            end(mutation, .conflict, of: &user)
        }
    }

    // MARK: - Final outcomes

    private mutating func fail(_ mutation: Accepted, _ code: String, of user: inout User, _ isUnknown: Bool = false) {
        mutation.code = code
        mutation.isOutcomeUnknown = isUnknown
        mutation.echoes = 0
        end(mutation, .failed, of: &user)
    }

    mutating func succeed(_ mutation: Accepted, of user: inout User) {
        mutation.isOutcomeUnknown = false
        end(mutation, .succeeded, of: &user)
        resolve(mutation, in: &user)
        release(mutation, in: &user)
    }

    /// Resolves a create's client id to its server id.
    func resolve(_ create: Accepted, in user: inout User) {
        guard create.entry.operation == .create, let local = create.entry.local, let id = create.serverID else {
            return
        }
        user.mappings[ClientKey(id: local, type: create.entry.type)]?.serverID = id
        know(create, in: user)
    }

    /// Gives a mutation's server id to the latest open mutation with the same client id, unless it has one.
    func know(_ mutation: Accepted, in user: User) {
        guard let local = mutation.entry.local, let id = mutation.serverID else { return }
        let last = user.lane.last {
            $0.entry.local == local && $0.entry.type == mutation.entry.type && !$0.status.isFinal
        }
        if let last, last.serverID == nil { last.serverID = id }
    }

    func end(_ mutation: Accepted, _ status: MutationStatus, of user: inout User) {
        mutation.status = status
        // of several in flight, the first one halts the lane
        if halts(status), user.haltedBy == nil { user.haltedBy = mutation.entry.id }
    }

    /// Releases the mutations that waited for a mutation.
    func release(_ mutation: Accepted, in user: inout User) {
        for waiter in user.lane where waiter.status == .blocked && waiter.dependsOn.contains(mutation.entry.id) {
            if user.unmet(waiter.dependsOn).isEmpty {
                waiter.status = .pending
                waiter.dependsOn = []
            }
        }
    }
}
