import Foundation
import GRDB
import SluiceClient

/// The end: the network is good, and people decide until nothing is left to decide.
extension Fleet {
    /// Synchronizes until phones and gateway say the same of every write, and nobody has decided anything meanwhile.
    ///
    /// - Returns: what they do not agree about.
    func disagreements() async throws -> [String] {
        proxy.set(rate: 0)
        var found: [String] = []
        var idleRounds = 0
        // a long lane, or a busy machine, takes many rounds; what does not change any more is a fault
        while idleRounds < 30 {
            await synchronize()
            let now = try await compare()
            if now.isEmpty { return [] }
            idleRounds = now == found ? idleRounds + 1 : 0
            found = now
        }
        return found
    }

    /// All phones at the same time, and not for long: what waits behind another phone's conflict waits for a decision.
    private func synchronize() async {
        await withTaskGroup(of: Void.self) { group in
            for client in phones.map(\.app.client) {
                group.addTask { await client.syncOnce(deadline: .seconds(1)) }
            }
        }
    }

    /// What phones show of writes, against what the gateway has.
    private func compare() async throws -> [String] {
        let known = try await mutations()
        var found: [String] = []
        for phone in phones {
            let failed = Set(try await phone.failedWrites().map(\.id))
            for entry in ledger.entries where entry.phone == phone.index && !entry.isForgotten {
                let status = known[entry.id]?.status
                let state = try await phone.state(of: entry.id)
                let fits =
                    switch status {
                    // one that failed, and was settled by another device since: the phone hears of that when it decides
                    case "succeeded": state.isApplied || failed.contains(entry.id)
                    case "discarded": state == .discarded || failed.contains(entry.id)
                    case "failed", "conflict": failed.contains(entry.id)
                    // the gateway did not take it, or it waits for one of those
                    case nil: state == .discarded || state == .queued || failed.contains(entry.id)
                    default: !failed.contains(entry.id) && !state.isSettled
                    }
                if !fits { found.append("\(entry.what) of phone \(phone.index): \(status ?? "unknown") is \(state)") }
            }
        }
        return found
    }

    /// Decides until nothing is left to decide: a conflict holds all that the user wrote behind it, so there are many
    /// rounds. That it never ends is a complaint of ``complaints()``.
    func settle() async throws {
        var quietRounds = 0
        for round in 0..<ledger.entries.count + 20 where quietRounds < 2 {
            await synchronize()
            let statuses = phones.map(\.app.client.currentStatus)
            let left = statuses.reduce(0) { $0 + $1.pending + $1.failed + $1.conflicts }
            if round % 20 == 19 { note("phones: \(left) writes are not settled") }
            for phone in phones { for _ in 0..<20 { try await decide(phone) } }
            try await settleForgotten()
            // what one phone pushed in a round is shown by the others in the next one
            quietRounds = left == 0 ? quietRounds + 1 : 0
        }
    }

    /// What failed of the writes that a restored phone has forgotten is shown by the gateway alone, which is asked for it
    /// here as by an operator.
    private func settleForgotten() async throws {
        for view in views {
            for mutation in try await view.mutations()
            where ["failed", "conflict"].contains(mutation.status) && ledger[mutation.id]?.isForgotten ?? true {
                try await view.discard(mutation.id)
            }
        }
    }

    /// All mutations at the gateway, by id.
    func mutations() async throws -> [UUID: GatewayView.Mutation] {
        let mutations = try await views.asyncMap { try await $0.mutations() }.joined()
        return Dictionary(mutations.map { ($0.id, $0) }) { first, _ in first }
    }
}

extension FleetPhone {
    /// What the phone knows of a write, also of one that the library no longer keeps.
    func state(of id: UUID) async throws -> Outcome {
        if let state = try await app.client.state(of: id) { return state }
        let status = try await app.pool.read { db in
            try String.fetchOne(
                db,
                sql: "SELECT status FROM pruned WHERE id = ?",
                arguments: [id.uuidString.lowercased()]
            )
        }
        switch status {
        case "succeeded": return .applied(serverID: nil, version: nil, isVisible: true)
        case "discarded": return .discarded
        default:
            throw GatewayView.Failure(description: "the outbox has lost \(id), which was \(status ?? "never there")")
        }
    }
}

extension Outcome {
    fileprivate var isApplied: Bool { if case .applied = self { true } else { false } }
}
