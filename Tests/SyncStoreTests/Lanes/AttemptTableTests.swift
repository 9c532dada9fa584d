import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import OperatorsFeature
@testable import SyncStore
@testable import UsersFeature

/// Attempts and operations are deleted or moved together with their users and organizations.
@Suite struct AttemptTableTests {
    /// A user with attempts at a stuck mutation, and a finished operation that references both.
    private static func fixture() async throws -> (Phone, Entry, OperationRow) {
        let phone = try await Phone.forwarding()
        let entry = try await phone.pushStuck(1)[0]
        try await attempts(phone, entry.id)
        let names = #""user_id":"\#(phone.user.lowercased)","ids":["\#(entry.id.lowercased)"]"#
        let operation = try await phone.gateway.operation(
            #""kind":"retry","filter":{\#(names)}"#,
            in: phone.organization.id
        )
        try await phone.execute(
            "UPDATE operations SET place_user = '\(phone.user)', place_id = '\(entry.id)', place_at = now()"
        )
        return (phone, entry, operation)
    }

    private static func attempts(_ phone: Phone, _ id: UUID) async throws {
        try await phone.execute(
            """
            INSERT INTO attempts (organization_id, user_id, mutation_id, slot, ordinal, revision, number, sent_at,
                status, outcome)
            SELECT '\(phone.organization.id)', '\(phone.user)', '\(id)', n, n, 1, n, now(), 503, 'retry'
            FROM generate_series(1, 3) n
            """
        )
    }

    @Test func `erasing a user removes the user's attempts and operations`() async throws {
        let (phone, entry, operation) = try await Self.fixture()
        let other = phone.neighbour()
        let theirs = try await other.pushStuck(1)[0]
        try await Self.attempts(other, theirs.id)
        try await phone.erase()
        for id in [phone.user, entry.id] {
            #expect(try await phone.gateway.mentions(of: id.lowercased, in: phone.organization.id) == [:])
        }
        #expect(try await phone.gateway.count("attempts", of: phone.organization.id) == 3)
        let kept = try await phone.gateway.store.operations.operation(operation.id, in: phone.organization.id)
        #expect(kept?.ids == [] && kept?.filter.user == UUID.least)
    }

    @Test func `a join moves the attempts and operations of the joined user`() async throws {
        let (phone, entry, operation) = try await Self.fixture()
        let other = phone.neighbour()
        try await other.pushStuck(1)
        try await phone.join(into: other)
        #expect(try await other.count("attempts", "user_id = '\(other.user)' AND mutation_id = '\(entry.id)'") == 3)
        #expect(try await other.count("attempts", "user_id = '\(phone.user)'") == 0)
        let kept = try await phone.gateway.store.operations.operation(operation.id, in: phone.organization.id)
        #expect(kept?.filter.user == other.user && kept?.ids == [entry.id])
        let groups = try await phone.gateway.groups(of: phone.organization.id)
        #expect(groups.map(\.count.count) == [2], "the marks of stuck mutations move, too")
    }

    @Test func `a purge deletes all attempts and operations`() async throws {
        let (phone, _, _) = try await Self.fixture()
        let administration = phone.gateway.store.administration
        for _ in 0..<20 where try await !administration.purge(phone.organization.id) {}
        for table in ["attempts", "operations", "mutations"] {
            #expect(try await phone.gateway.count(table, of: phone.organization.id) == 0, "\(table)")
        }
    }

    @Test func `attempts are deleted with their mutation's record`() async throws {
        let (phone, entry, _) = try await Self.fixture()
        let gateway = phone.gateway
        let other = try await phone.pushStuck(1)[0]
        try await Self.attempts(phone, other.id)
        _ = try await phone.discard(entry.id)
        gateway.clock.advance(seconds: 30 * Gateway.day + 1)
        try await gateway.retain()
        #expect(try await phone.count("mutations", "id = '\(entry.id)'") == 0)
        #expect(try await phone.count("attempts", "mutation_id = '\(entry.id)'") == 0)
        #expect(try await phone.count("attempts", "mutation_id = '\(other.id)'") == 3)
    }

    @Test func `a user's export contains the attempts`() async throws {
        let (phone, entry, _) = try await Self.fixture()
        let lane = LaneKey(organization: phone.organization.id, user: phone.user)
        var text = ""
        try await phone.gateway.store.exports.run(lane) { text += String(decoding: $0, as: UTF8.self) }
        let lines = text.split(separator: "\n").filter { $0.contains(#""attempt""#) }
        #expect(lines.count == 3 && lines.allSatisfy { $0.contains(entry.id.lowercased) && $0.contains("503") })
        #expect(text.contains(#""error":{"code":"upstream_rejected""#))
    }
}
