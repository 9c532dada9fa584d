import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

@Suite(.serialized) struct PropertySettlingTests {
    /// Users push and settle in random order, and workers have random outcomes. In every state, a lane's counts match
    /// its rows, every blocked mutation waits for another mutation, and no running mutation waits.
    @Test(arguments: 1...3)
    func `every random history of settling leaves the lanes consistent`(_ run: Int) async throws {
        let seed = Seed()
        var generator = SeededRandom(seed.value &+ UInt64(run))
        let settings = generator.oneIn(2) ? "{}" : #"{"on_conflict":"continue"}"#
        let first = try await Phone.forwarding(settings)
        let phones = [first, Phone(first.gateway, first.organization)]
        var histories = phones.map { _ in SettlingHistory() }
        var step = -1
        // the history continues if the first eighty steps settled too few mutations to be meaningful
        while step < 79 || histories.reduce(0, { $0 + $1.settled }) <= 2 && step < 400 {
            step += 1
            let index = Int.random(in: 0...1, using: &generator)
            let what = try await histories[index].step(phones[index], &generator)
            guard step % 5 == 4 || what.hasPrefix("discard") else { continue }
            let disorder = try await first.disorder()
            #expect(disorder == [], "\(seed), run \(run), step \(step): \(what)")
            if !disorder.isEmpty { return }
        }
        #expect(try await first.disorder() == [], "\(seed), run \(run)")
        let settled = histories.reduce(0) { $0 + $1.settled }
        #expect(settled > 2, "\(seed), run \(run): the history settles too few mutations to be meaningful")
    }
}

/// One user's actions so far.
private struct SettlingHistory {
    private var ids: [UUID] = []
    private var locals: [UUID] = []
    var settled = 0

    /// One random action; returns its description.
    mutating func step(_ phone: Phone, _ generator: inout SeededRandom) async throws -> String {
        switch Int.random(in: 0..<10, using: &generator) {
        case 0...2: return try await push(phone, &generator)
        case 3...5: return try await work(phone, &generator)
        default: return try await settle(phone, &generator)
        }
    }

    private mutating func push(_ phone: Phone, _ generator: inout SeededRandom) async throws -> String {
        var entries: [Entry] = []
        for _ in 0...Int.random(in: 0...3, using: &generator) {
            let payload = reference(&generator)
            var needs: [UUID] = []
            if generator.oneIn(3), let id = ids.randomElement(using: &generator) { needs = [id] }
            if generator.oneIn(2) || locals.isEmpty {
                // occasionally a client id that was used before
                let old = generator.oneIn(4) ? locals.randomElement(using: &generator) : nil
                let local = old ?? generator.uuid()
                entries.append(phone.forward("create", local: local, payload: payload, needs: needs))
                locals.append(local)
            } else {
                let local = locals.randomElement(using: &generator)
                entries.append(phone.forward("update", local: local, payload: payload, needs: needs))
            }
        }
        let results = try await phone.push(entries).results
        ids += zip(entries, results).filter { $1.status != "rejected" }.map(\.0.id)
        return "push"
    }

    private func reference(_ generator: inout SeededRandom) -> String {
        guard generator.oneIn(2), let local = locals.randomElement(using: &generator) else { return "{}" }
        return #"{"ref":"\#(local.lowercased)"}"#
    }

    /// A worker's interrupted work: an outcome that releases no dependent.
    private func work(_ phone: Phone, _ generator: inout SeededRandom) async throws -> String {
        guard let id = ids.randomElement(using: &generator) else { return "nothing" }
        guard try await phone.read(id).status == "pending" else { return "nothing" }
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: try await phone.leave(id, "failed", "error = '{}', is_outcome_unknown = \(generator.oneIn(3))")
        case 1: try await phone.leave(id, "failed")
        case 2: try await phone.conflict(id, current: nil)
        default:
            try await phone.conflict(
                id,
                current: #"{"id":"\#(id.lowercased)","deleted":false,"document":{"n":1}}"#
            )
        }
        if generator.oneIn(3) {
            try await phone.execute(
                """
                UPDATE lanes SET halted_by = '\(id.lowercased)', ready_at = NULL, lease_owner = NULL
                WHERE \(phone.owner)
                """
            )
        }
        return "work"
    }

    private mutating func settle(_ phone: Phone, _ generator: inout SeededRandom) async throws -> String {
        guard let id = ids.randomElement(using: &generator) else { return "nothing" }
        let move = Int.random(in: 0..<7, using: &generator)
        let edit = #"{"payload":\#(reference(&generator)),"force":true}"#
        let name = ["retry", "retry edited", "discard", "discard all", "discard keep", "server_wins", "client_wins"][
            move
        ]
        let refused = try await refusal {
            switch move {
            case 0: try await phone.retry(id)
            case 1: try await phone.retry(id, edit)
            case 2: try await phone.discard(id)
            case 3: try await phone.discard(id, .discard)
            case 4: try await phone.discard(id, .keep)
            case 5: try await phone.resolve(id, "server_wins")
            default: try await phone.resolve(id, "client_wins")
            }
        }
        if refused == nil { settled += 1 }
        return refused == nil ? name : "nothing"
    }
}
