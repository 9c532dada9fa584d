import Foundation
import SyncModel

extension RuleModel {
    /// An entry of a push.
    struct Outgoing {
        var entry: RuleEntry
        var number: Int64
    }

    private struct Refused: Error {
        let code: String
        init(_ code: String = "validation_failed") { self.code = code }
    }

    /// The state of a push while its entries are evaluated.
    private struct Push {
        let device: UUID
        let entries: [Outgoing]
        /// Indices of the well-formed entries, in execution order.
        let order: [Int]
        var rejectedIDs: Set<UUID> = []
        var rejectedCreates: Set<ClientKey> = []
        var accepted: [Accepted] = []

        func rank(ofMutation id: UUID) -> Int? { order.firstIndex { entries[$0].entry.id == id } }
        func create(_ key: ClientKey) -> Accepted? {
            accepted.first { $0.entry.operation == .create && $0.entry.local == key.id && $0.entry.type == key.type }
        }
    }

    /// Evaluates a push and applies it. The results have the order of the request.
    ///
    /// - Returns: nil if it is strict and one of its entries is refused: then nothing changes.
    mutating func push(_ entries: [Outgoing], device: UUID, user id: UUID, isStrict: Bool) -> [Verdict]? {
        if isStrict {
            var trial = copy()
            if trial.judge(entries, device: device, user: id).contains(where: \.isRejected) { return nil }
        }
        return judge(entries, device: device, user: id)
    }

    private mutating func judge(_ entries: [Outgoing], device: UUID, user id: UUID) -> [Verdict] {
        var user = users[id] ?? User(id: id)
        let order = entries.indices.filter { !entries[$0].entry.isInvalid }
            .sorted { (entries[$0].number, $0) < (entries[$1].number, $1) }
        var push = Push(device: device, entries: entries, order: order)
        var verdicts: [Verdict?] = entries.map { _ in nil }
        for place in entries.indices where entries[place].entry.isInvalid {
            verdicts[place] = judgeInvalid(entries[place], &user, &push)
        }
        for (rank, place) in order.enumerated() {
            verdicts[place] = judge(entries[place], rank, &user, &push)
        }
        // an unknown device is stored together with its first stored entry
        let isStored =
            verdicts.contains { $0?.isRejected == false } || user.refusals.values.contains { $0.device == device }
        if isStored || user.watermarks[device] != nil {
            user.watermarks[device] = max(user.watermarks[device] ?? 0, entries.map(\.number).max() ?? 0)
        }
        users[id] = user
        return verdicts.compactMap { $0 }
    }

    private mutating func judgeInvalid(_ outgoing: Outgoing, _ user: inout User, _ push: inout Push) -> Verdict {
        let entry = outgoing.entry
        if let known = user.mutation(key: entry.key), known.entry.id == entry.id, known.entry.content == entry.content {
            return .replayed(known)
        }
        push.rejectedIDs.insert(entry.id)
        if entry.operation == .create, let local = entry.local {
            push.rejectedCreates.insert(ClientKey(id: local, type: entry.type))
        }
        if user.mutation(key: entry.key) != nil { return .rejected(code: "idempotency_key_reused", isRepeated: false) }
        if let code = earlierRefusal(of: outgoing, user, push) { return .rejected(code: code, isRepeated: true) }
        if outgoing.number > user.watermarks[push.device] ?? 0 {
            user.refusals[entry.key] = (push.device, outgoing.number, "validation_failed")
        }
        return .rejected(code: "validation_failed", isRepeated: false)
    }

    private func earlierRefusal(of outgoing: Outgoing, _ user: User, _ push: Push) -> String? {
        user.refusals[outgoing.entry.key].flatMap { refusal in
            refusal.device == push.device && refusal.number == outgoing.number ? refusal.code : nil
        }
    }

    private mutating func judge(
        _ outgoing: Outgoing,
        _ rank: Int,
        _ user: inout User,
        _ push: inout Push
    ) -> Verdict {
        let entry = outgoing.entry
        if let known = user.mutation(key: entry.key) {
            if known.entry.id == entry.id, known.entry.content == entry.content { return .replayed(known) }
            refuseDependants(of: entry, user, &push)
            return .rejected(code: "idempotency_key_reused", isRepeated: false)
        }
        if let code = earlierRefusal(of: outgoing, user, push) {
            refuseDependants(of: entry, user, &push)
            return .rejected(code: code, isRepeated: true)
        }
        if outgoing.number <= user.watermarks[push.device] ?? 0 {
            refuseDependants(of: entry, user, &push)
            return .rejected(code: "sequence_already_used", isRepeated: false)
        }
        var dependsOn: Set<UUID> = []
        do throws(Refused) {
            if user.mutation(entry.id) != nil { throw Refused("id_already_used") }
            try judgeIdentity(entry, user, push, &dependsOn)
            dependOnEarlierWrites(entry, user, push, &dependsOn)
            try judgeDependencies(entry, rank, user, push, &dependsOn)
            for id in entry.references where id != entry.local {
                _ = try refer(to: id, rank, user, push, &dependsOn)
            }
            dependOnOrderKey(entry, user, &dependsOn)
        } catch {
            refuseDependants(of: entry, user, &push)
            user.refusals[entry.key] = (push.device, outgoing.number, error.code)
            return .rejected(code: error.code, isRepeated: false)
        }
        return .accepted(accept(outgoing, dependsOn, &user, &push))
    }

    private func refuseDependants(of entry: RuleEntry, _ user: User, _ push: inout Push) {
        if user.mutation(entry.id) == nil { push.rejectedIDs.insert(entry.id) }
        if entry.operation == .create, let local = entry.local {
            push.rejectedCreates.insert(ClientKey(id: local, type: entry.type))
        }
    }

    private func judgeIdentity(
        _ entry: RuleEntry,
        _ user: User,
        _ push: Push,
        _ dependsOn: inout Set<UUID>
    ) throws(Refused) {
        guard let local = entry.local else {
            if entry.operation == .create || entry.server == nil { throw Refused() }
            return
        }
        let key = ClientKey(id: local, type: entry.type)
        let mapping = user.mappings[key]
        let usable = mapping.flatMap { $0.isAbandoned ? nil : $0 }
        if entry.operation == .create {
            if entry.server != nil || usable != nil { throw Refused() }
            return
        }
        if let usable {
            if let given = entry.server, let known = usable.serverID, given != known { throw Refused() }
            if usable.serverID == nil { dependsOn.insert(usable.create) }
        } else if let create = push.create(key) {
            dependsOn.insert(create.entry.id)
        } else if push.rejectedCreates.contains(key) {
            throw Refused("dependency_rejected")
        } else if entry.server == nil {
            throw Refused(mapping == nil ? "validation_failed" : "dependency_rejected")
        }
    }

    /// A mutation depends on earlier mutations of the same entity (product rule 3).
    private func dependOnEarlierWrites(
        _ entry: RuleEntry,
        _ user: User,
        _ push: Push,
        _ dependsOn: inout Set<UUID>
    ) {
        // an entity did not exist before its create
        guard entry.operation != .create else { return }
        func permanent(_ local: UUID?) -> String? {
            local.flatMap { user.mappings[ClientKey(id: $0, type: entry.type)]?.serverID }
        }
        let server = entry.server ?? permanent(entry.local)
        func isSame(_ other: Accepted) -> Bool {
            guard other.entry.type == entry.type else { return false }
            // mutations under the same client id count, except its create, on which others depend by the mapping
            return (entry.local != nil && other.entry.local == entry.local && other.entry.operation != .create)
                || (server != nil && (other.serverID ?? permanent(other.entry.local)) == server)
        }
        if let last = user.lane.last(where: { isSame($0) && !$0.status.isFinal }) { dependsOn.insert(last.entry.id) }
    }

    /// With the order by dependencies, a mutation depends on the last one with its order key (product rule 3).
    private func dependOnOrderKey(_ entry: RuleEntry, _ user: User, _ dependsOn: inout Set<UUID>) {
        guard inFlight != nil, let key = entry.orderKey else { return }
        let last = user.lane.last { $0.entry.orderKey == key && !$0.status.isFinal }
        if let last { dependsOn.insert(last.entry.id) }
    }

    private func judgeDependencies(
        _ entry: RuleEntry,
        _ rank: Int,
        _ user: User,
        _ push: Push,
        _ dependsOn: inout Set<UUID>
    ) throws(Refused) {
        for id in entry.dependencies {
            if id == entry.id { throw Refused() }
            if let known = user.mutation(id) {
                if known.status == .discarded, !known.satisfies { throw Refused("dependency_rejected") }
                dependsOn.insert(id)
            } else if push.rejectedIDs.contains(id) {
                throw Refused("dependency_rejected")
            } else if let later = push.rank(ofMutation: id), later > rank {
                throw Refused()
            } else if try !refer(to: id, rank, user, push, &dependsOn) {
                throw Refused()
            }
        }
    }

    /// Resolves a client id of the user; false if it is data.
    private func refer(
        to id: UUID,
        _ rank: Int,
        _ user: User,
        _ push: Push,
        _ dependsOn: inout Set<UUID>
    ) throws(Refused) -> Bool {
        let usable = user.usable(id)
        let ranks = Dictionary(uniqueKeysWithValues: push.order.enumerated().map { ($1, $0) })
        let later = push.entries.indices.contains { place in
            let other = push.entries[place].entry
            return other.operation == .create && other.local == id && !other.isInvalid
                && !usable.contains { $0.type == other.type }
                && (ranks[place] ?? 0) > rank && !push.rejectedCreates.contains(ClientKey(id: id, type: other.type))
        }
        let isRefused = RuleType.allCases.contains { type in
            push.rejectedCreates.contains(ClientKey(id: id, type: type)) && !usable.contains { $0.type == type }
        }
        guard user.isMapped(id) || later || isRefused else { return false }
        if usable.count > 1 { throw Refused("reference_ambiguous") }
        if let mapping = usable.first?.mapping {
            if mapping.serverID == nil { dependsOn.insert(mapping.create) }
            return true
        }
        if isRefused || !later { throw Refused("dependency_rejected") }
        throw Refused()
    }

    private mutating func accept(
        _ outgoing: Outgoing,
        _ dependsOn: Set<UUID>,
        _ user: inout User,
        _ push: inout Push
    ) -> Accepted {
        let entry = outgoing.entry
        let accepted = Accepted(entry, number: outgoing.number, device: push.device, position: user.lane.count, at: now)
        user.refusals[entry.key] = nil
        for id in entry.references { accepted.targets[id] = user.usable(id).first?.type }
        accepted.everDependedOn = dependsOn
        accepted.dependsOn = user.unmet(dependsOn)
        let isIdle = !user.lane.contains { $0.status.isQueued }
        find(accepted, user)
        user.lane.append(accepted)
        push.accepted.append(accepted)
        if entry.operation == .create, let local = entry.local {
            user.mappings[ClientKey(id: local, type: entry.type)] = Mapping(create: entry.id)
        }
        if !accepted.dependsOn.isEmpty {
            accepted.status = .blocked
        } else if !entry.type.isForwarded, isIdle, !user.isHalted {
            apply(accepted, of: &user)
        }
        return accepted
    }
}
