import Foundation
import GRDB
import SluiceClient

/// The end of a run: the network works, and users settle mutations until no more are open.
extension Fleet {
    /// Synchronizes without settlements until the phones and the gateway agree about every write.
    ///
    /// - Returns: the remaining differences.
    func disagreements() async throws -> [String] {
        proxy.set(rate: 0)
        var found: [String] = []
        var idleRounds = 0
        // a long lane or a busy machine needs many rounds; differences that no longer change are errors
        while idleRounds < 7 {
            await synchronize(for: .seconds(1 << idleRounds))
            let now = try await compare()
            if now.isEmpty { return [] }
            idleRounds = now == found ? idleRounds + 1 : 0
            found = now
        }
        return found
    }

    /// Synchronizes all phones concurrently.
    ///
    /// The deadline is short at first, because mutations after another phone's conflict wait for its settlement. On a
    /// busy machine a phone may need longer to check hundreds of mutations.
    private func synchronize(for deadline: Duration = .seconds(1)) async {
        await withTaskGroup(of: Void.self) { group in
            for client in phones.filter({ !$0.isLost }).map(\.app.client) {
                group.addTask { await client.syncOnce(deadline: deadline) }
            }
        }
    }

    /// Compares the writes that phones show with those of the gateway.
    private func compare() async throws -> [String] {
        let known = try await mutations()
        var found: [String] = []
        for phone in phones where !phone.isLost {
            let failed = Set(try await phone.failedWrites().map(\.id))
            for entry in ledger.entries where entry.phone == phone.index && !entry.isForgotten {
                let status = known[entry.id]?.status
                let state = try await phone.state(of: entry.id)
                let fits =
                    switch status {
                    // this phone has discarded the write, and another phone that has it, too, has sent it
                    case .some where state == .discarded && !entry.copies.isEmpty: true
                    // if another device has settled a failure, the phone learns of this only when it settles the
                    // failure itself
                    case "succeeded": state.isApplied || failed.contains(entry.id)
                    case "discarded": state == .discarded || failed.contains(entry.id)
                    case "failed", "conflict": failed.contains(entry.id)
                    // the gateway rejected the write, or the write waits for a rejected one
                    case nil: state == .discarded || state == .queued || failed.contains(entry.id)
                    default: !failed.contains(entry.id) && !state.isSettled
                    }
                if !fits { found.append("\(entry.what) of phone \(phone.index): \(status ?? "unknown") is \(state)") }
            }
        }
        return found
    }

    /// Settles mutations until none are open, for a limited number of rounds.
    ///
    /// A conflict blocks all later writes of its user, so there are many rounds. Therefore rounds are short, and only
    /// some of them read all mutations of the gateway. ``complaints()`` reports mutations that are still open.
    func settle() async throws {
        var (quietRounds, left) = (0, 1)
        for round in 0..<ledger.entries.count + 20 where quietRounds < 2 {
            // a short round may end before a phone has pulled everything, so it does not show that the phones agree
            let isLong = left == 0 || round % 10 == 9
            await synchronize(for: .milliseconds(isLong ? 5_000 : 300))
            let statuses = phones.filter { !$0.isLost }.map(\.app.client.currentStatus)
            left = statuses.reduce(0) { $0 + $1.pending + $1.failed + $1.conflicts }
            if round % 100 == 99 { note("phones: \(left) writes are not settled") }
            var hasDecided = false
            for phone in phones where !phone.isLost {
                for _ in 0..<20 where try await decide(phone) { hasDecided = true }
            }
            if !hasDecided || round % 10 == 9 { try await settleForgotten() }
            // other phones show a round's pushes in the next round
            quietRounds = left == 0 && isLong ? quietRounds + 1 : 0
        }
    }

    /// Discards failed writes that a restored phone has lost. Only the gateway shows them.
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
    /// The phone's data about a write, also if the library has deleted its record.
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
