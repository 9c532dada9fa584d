import Foundation
import SyncModel

extension RuleModel {
    /// A person's call about one mutation.
    enum Call: Sendable {
        case retry(payload: Int?, isForced: Bool)
        case discard(DependantsChoice?)
        case serverWins
        case clientWins
    }

    /// The reason why a call is refused.
    struct Refusal: Error {
        let code: String
    }

    /// Applies a person's call (product rules 4, 6 and 12).
    mutating func settle(_ call: Call, _ mutation: Accepted, of id: UUID) throws(Refusal) {
        guard var user = users[id] else { return }
        switch call {
        case .retry(let payload, let isForced): try retry(mutation, payload, isForced, of: &user)
        case .discard(let choice): try discard(mutation, choice, of: &user)
        case .serverWins: try letServerWin(mutation, of: &user)
        case .clientWins: try letClientWin(mutation, of: &user)
        }
        if user.haltedBy == mutation.entry.id, mutation.status != .failed, mutation.status != .conflict {
            user.haltedBy = nil
        }
        if let halting = user.haltedBy, let other = user.mutation(halting), other.status == .discarded {
            user.haltedBy = nil
        }
        users[id] = user
    }

    private func require(_ mutation: Accepted, _ statuses: [MutationStatus]) throws(Refusal) {
        if !statuses.contains(mutation.status) { throw Refusal(code: "status_transition_must_be_valid") }
    }

    private func retry(
        _ mutation: Accepted,
        _ payload: Int?,
        _ isForced: Bool,
        of user: inout User
    ) throws(Refusal) {
        try require(mutation, [.failed, .conflict])
        let mayHaveTakenEffect = mutation.isOutcomeUnknown || mutation.tookEffect
        if mayHaveTakenEffect, payload != nil, !isForced {
            throw Refusal(code: "status_transition_must_be_valid")
        }
        let edited = payload.map { [(name: "n", value: RuleEntry.Value.text("\($0)"))] }
        let waits = try dependencies(of: mutation, edited ?? mutation.payload, user)
        if let edited { mutation.edited = edited }
        restart(mutation, waits, keepsKey: mayHaveTakenEffect && payload == nil)
        mutation.resolution = nil
        mutation.code = nil
    }

    private func restart(_ mutation: Accepted, _ waits: Set<UUID>, keepsKey: Bool) {
        if !keepsKey { mutation.revision += 1 }
        mutation.isOutcomeUnknown = keepsKey
        mutation.tookEffect = false
        mutation.hold = nil
        mutation.dependsOn = waits
        mutation.status = waits.isEmpty ? .pending : .blocked
        mutation.attempts = 0
        mutation.echoes = 0
        mutation.nextTry = nil
        mutation.overrides = false
    }

    /// The dependencies of a mutation that runs again.
    private func dependencies(
        of mutation: Accepted,
        _ payload: [(name: String, value: RuleEntry.Value)]?,
        _ user: User
    ) throws(Refusal) -> Set<UUID> {
        var entry = mutation.entry
        entry.payload = payload
        var waits = user.unmet(mutation.dependsOn)
        let own = entry.operation == .create ? nil : entry.local
        for id in entry.references + [own].compactMap({ $0 }) where entry.operation != .create || id != entry.local {
            var known = RuleType.allCases.filter { user.mappings[ClientKey(id: id, type: $0)] != nil }
            if id == entry.local { known = known.filter { $0 == entry.type } }
            guard !known.isEmpty else { continue }
            // the resolution at acceptance remains valid, and data at that time is data now
            if id != entry.local, mutation.targets[id] == nil { continue }
            let decided = mutation.edited == nil || id == entry.local ? mutation.targets[id] : nil
            let usable = user.usable(id).filter { known.contains($0.type) && (decided ?? $0.type) == $0.type }
            guard let mapping = usable.first?.mapping else {
                if id == entry.local, mutation.serverID != nil { continue }
                throw Refusal(code: "validation_failed")
            }
            if mapping.serverID == nil { waits.insert(mapping.create) }
        }
        let added = waits.subtracting(mutation.dependsOn)
        let dependants = Set(dependants(of: mutation, user).map(\.entry.id)).union([mutation.entry.id])
        if !added.isDisjoint(with: dependants) { throw Refusal(code: "validation_failed") }
        return waits
    }

    /// All mutations that wait for a mutation, directly or through others.
    private func dependants(of mutation: Accepted, _ user: User) -> [Accepted] {
        var found: Set<UUID> = [mutation.entry.id]
        var result: [Accepted] = []
        while true {
            let next = user.lane.first { other in
                !other.status.isFinal && !found.contains(other.entry.id) && !other.dependsOn.isDisjoint(with: found)
            }
            guard let next else { return result }
            found.insert(next.entry.id)
            result.append(next)
        }
    }

    private mutating func discard(_ mutation: Accepted, _ choice: DependantsChoice?, of user: inout User)
        throws(Refusal)
    {
        try require(mutation, [.pending, .blocked, .failed, .conflict])
        let all = dependants(of: mutation, user).filter { $0.status != .inFlight }
        if choice == nil, !all.isEmpty { throw Refusal(code: "validation_failed") }
        if choice == .keep {
            for waiter in user.lane where !waiter.status.isFinal && waiter.dependsOn.contains(mutation.entry.id) {
                keep(waiter, without: mutation, user)
            }
        }
        let given = [mutation] + (choice == .discard ? all : [])
        for doomed in given {
            doomed.status = .discarded
            doomed.nextTry = nil
            doomed.resolution = nil
            if doomed.entry.operation == .create, let local = doomed.entry.local {
                let key = ClientKey(id: local, type: doomed.entry.type)
                if user.mappings[key]?.create == doomed.entry.id { user.mappings[key]?.isAbandoned = true }
            }
        }
        for doomed in given where doomed.entry.operation != .create { know(doomed, in: user) }
    }

    /// Removes a waiting mutation's dependency on a discarded one. If both are about one entity, the waiting mutation
    /// inherits the discarded one's dependencies on that entity.
    private func keep(_ waiter: Accepted, without mutation: Accepted, _ user: User) {
        func isSame(_ one: Accepted, _ other: Accepted) -> Bool {
            one.entry.type == other.entry.type
                && ((one.entry.local != nil && one.entry.local == other.entry.local)
                    || (one.serverID != nil && one.serverID == other.serverID))
        }
        var waits = waiter.dependsOn.subtracting([mutation.entry.id])
        if isSame(waiter, mutation) {
            waits.formUnion(
                mutation.dependsOn.filter { id in user.mutation(id).map { isSame($0, waiter) } ?? false }
            )
        }
        waiter.dependsOn = user.unmet(waits)
        guard waiter.status == .blocked || waiter.status == .pending else { return }
        if mutation.entry.operation == .create, let lost = mutation.entry.local, needs(waiter, lost, user, mutation) {
            waiter.status = .failed
            waiter.code = "dependency_rejected"
        } else {
            waiter.status = waiter.dependsOn.isEmpty ? .pending : .blocked
        }
    }

    /// Whether a mutation cannot run without the permanent id that a client id would have received.
    private func needs(_ mutation: Accepted, _ id: UUID, _ user: User, _ create: Accepted) -> Bool {
        if mutation.entry.local == id, mutation.serverID == nil, mutation.entry.operation != .create { return true }
        // the mutation also needs a client id that it lists as a dependency
        return (mutation.references + mutation.entry.dependencies).contains(id) && id != mutation.entry.local
    }

    private func letServerWin(_ mutation: Accepted, of user: inout User) throws(Refusal) {
        try require(mutation, [.conflict])
        let isCreate = mutation.entry.operation == .create
        let entity = isCreate ? mutation.named ?? mutation.serverID : mutation.serverID ?? mutation.named
        if isCreate, entity == nil { throw Refusal(code: "status_transition_must_be_valid") }
        mutation.status = .discarded
        mutation.resolution = .serverWins
        mutation.serverID = entity
        if let entity, mutation.entry.type == .note { mutation.version = notes[entity]?.version ?? mutation.version }
        resolve(mutation, in: &user)
        if !isCreate { know(mutation, in: user) }
        release(mutation, in: &user)
    }

    private func letClientWin(_ mutation: Accepted, of user: inout User) throws(Refusal) {
        try require(mutation, [.conflict])
        let isCreate = mutation.entry.operation == .create
        let entity = isCreate ? mutation.named ?? mutation.serverID : mutation.serverID
        // the content of a note is examined before the operation
        if isCreate, !mutation.entry.type.isForwarded { _ = try dependencies(of: mutation, mutation.payload, user) }
        if isCreate, entity == nil || !mutation.entry.type.isForwarded {
            throw Refusal(code: "status_transition_must_be_valid")
        }
        let waits = try dependencies(of: mutation, mutation.payload, user)
        if !mutation.entry.type.isForwarded, mutation.entry.operation == .update, mutation.metDeletion {
            throw Refusal(code: "validation_failed")
        }
        restart(mutation, waits, keepsKey: false)
        mutation.serverID = entity
        mutation.resolution = .clientWins
        mutation.overrides = true
    }
}
