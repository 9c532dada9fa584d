import Foundation
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore
@testable import TransferFeature

/// The text of a compressed value can be a hundred times as large as the stored value. To measure the text, PostgreSQL
/// must read and decompress the value.
@Suite struct MeasuringTests {
    /// A value of about a megabyte, which is stored in 11 kB, on six pages or more.
    private static let value = "json_build_object('text', repeat('lorem ipsum ', 80000))"

    /// Statements that return values up to a limit of bytes, and their parameters.
    private static func cases(_ phone: Phone, bytes: Int64) async throws -> [(statement: Statement, values: String)] {
        let rows = try await phone.gateway.read("SELECT id::text, server_id::text FROM mutations ORDER BY position")
        let mutations = try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
        let entities = try (0..<rows.count).map { try rows.read($0, 1, as: String.self) }
        let (organization, user) = ("'\(phone.organization.id)'", "'\(phone.user)'")
        let least = "'\(UUID.least)'"
        func list(_ values: [String]) -> String { "'{\(values.joined(separator: ","))}'" }
        func repeated(_ value: String) -> String { list(Array(repeating: value, count: rows.count)) }
        let places = list((0..<rows.count).map { "\($0)" })
        let keys = "\(repeated("\(phone.organization.id)")), \(repeated("task")), \(list(entities))"
        let names =
            "\(repeated("1")), \(repeated("\(phone.organization.id)")), \(repeated("\(phone.user)")), \(list(mutations))"
        return [
            (FeedReader.statement, "\(organization), 0, '{}', \(user), 1000, 100, \(bytes)"),
            (EntityExport.statement, "\(organization), 0, 100, '{}', NULL, 0, \(bytes)"),
            (MutationReader.listStatement, "\(organization), \(user), 0, '{}', NULL, NULL, 100, \(bytes)"),
            (
                MutationReader.organizationStatement,
                "\(organization), \(least), 0, '\(UUID.greatest)', 0, '{}', NULL, NULL, NULL, 100, \(bytes)"
            ),
            (EventReader.keysStatement, "\(organization), \(user), 0, 0, \(least), '', 64, \(bytes)"),
            (MutationReader.recordsStatement, "\(organization), \(user), \(list(mutations)), \(bytes), \(bytes)"),
            (GroupStatements.mutationsByID, "\(names), \(bytes), \(bytes)"),
            (SettleStatements.current, "\(organization), \(user), \(list(mutations)), \(bytes), \(bytes)"),
            (EntityStatements.lockBounded, "\(keys), '{}', '{}', '{}', '{}', \(bytes)"),
            (IngestStatements.lockEntities, "\(keys), \(places), \(bytes), \(bytes)"),
        ]
    }

    @Test(.onOneServer("plans of one server"))
    func `statements measure compressed values up to the limit of bytes`() async throws {
        let phone = try await Phone.new()
        try await phone.push((0..<80).map { _ in phone.create() })
        let connection = try await phone.gateway.database.connect()
        defer { connection.close() }
        try await connection.execute(
            script: "UPDATE entities SET document = \(Self.value); UPDATE mutations SET response_body = \(Self.value)"
        )
        let limited = try await Self.cases(phone, bytes: 1_500_000)
        let unlimited = try await Self.cases(phone, bytes: 1_000_000_000_000)
        for (first, all) in zip(limited, unlimited) {
            let plans = try await connection.plans(of: first.statement, first.values)
            let complete = try await connection.plans(of: all.statement, all.values)
            for (plan, other) in zip(plans, complete) {
                #expect(pages(in: plan) + 100 < pages(in: other), "\(plan)\n\(other)")
            }
        }
    }

    /// `bytes` includes all documents, but documents after the limit may count with their stored size.
    @Test func `documents up to the limit are read, and all have a size`() async throws {
        let phone = try await Phone.new()
        try await phone.push((0..<5).map { _ in phone.create() })
        let connection = try await phone.gateway.database.connect()
        defer { connection.close() }
        try await connection.execute(script: "UPDATE entities SET document = \(Self.value)")
        let ids = try await phone.gateway.read("SELECT id::text FROM entities ORDER BY entity_type, id")
        let keys = try (0..<ids.count).map {
            (
                organization: phone.organization.id,
                key: EntityKey(type: "task", id: try ids.read($0, 0, as: String.self))
            )
        }
        var parameters = EntityRows.keys.parameters(keys)
        for _ in 0..<3 { parameters.add([] as [UUID]) }
        parameters.add([] as [String])
        parameters.add(1_500_000)
        var found: [(hasDocument: Bool, bytes: Int)] = []
        for var row in try await connection.run([Query(EntityStatements.readBounded, parameters)])[0] {
            for name in ["organization_id", "entity_type", "id", "id_is_integer", "version", "is_deleted"]
                as [StaticString]
            {
                row.skip(name)
            }
            let document: [UInt8]? = try row.read("document")
            let skipped: [StaticString] = [
                "owner_id", "client_id", "updated_by", "updated_on", "run_base", "etag", "channels", "feed_position",
            ]
            for name in skipped { row.skip(name) }
            found.append((document != nil, try row.read("bytes")))
        }
        #expect(found.map(\.hasDocument) == [true, true, false, false, false])
        #expect(found.prefix(2).allSatisfy { $0.bytes > 960_000 })
        #expect(found.allSatisfy { $0.bytes > WorkBounds.small })
    }
}
