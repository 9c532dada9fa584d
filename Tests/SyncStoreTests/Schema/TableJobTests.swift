import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import EncryptionFeature
@testable import RetentionFeature
@testable import SyncStore
@testable import UsersFeature

/// Runs each job over all tables of the catalogue, filled with rows of two users in two organizations.
@Suite struct TableJobTests {
    let tables = Gateway.tables
    let users = [UUID(), UUID()]
    private var user: UUID { users[0] }
    private var other: UUID { users[1] }

    /// Tests that seal rows omit the made-up keys of users, because these cannot be opened.
    private var withoutKeys: [StoredTable] { tables.filter { $0.name != "user_keys" } }
    private var fillable: [StoredTable] { TestKeys.ofEnvironment == nil ? tables : withoutKeys }

    private func filled(
        _ gateway: Gateway,
        _ tables: [StoredTable]
    ) async throws -> (rows: TableRows, one: UUID, two: UUID) {
        let rows = try await TableRows(gateway)
        let organizations = try await [gateway.organization().id, gateway.organization().id]
        for organization in organizations {
            try await rows.fill(tables, of: organization, users: users)
            gateway.store.catalog.invalidate(organization)
        }
        return (rows, organizations[0], organizations[1])
    }

    /// The rows of an organization by table.
    private func dump(
        _ rows: TableRows,
        _ organization: UUID,
        where condition: String = "true"
    ) async throws -> [String: [String]] {
        var found: [String: [String]] = [:]
        for table in tables {
            guard let column = table.organization else { continue }
            let isIts = "\(column) = '\(organization.lowercased)' AND \(condition)"
            found[table.name] = try await rows.dump(table, where: isIts)
        }
        return found
    }

    private func count(_ table: StoredTable, _ rows: TableRows, of user: UUID, in organization: UUID) async throws
        -> Int
    {
        let condition =
            "organization_id = '\(organization.lowercased)' AND \(table.users?.owner ?? "") = '\(user.lowercased)'"
        return try await rows.dump(table, where: condition).count
    }

    @Test func `every table has a row of each organization`() async throws {
        let (rows, one, two) = try await filled(Gateway(), tables)
        for organization in [one, two] {
            let found = try await dump(rows, organization)
            // only encryption makes keys
            for table in tables where table.organization != nil && table.name != "organization_keys" {
                #expect(found[table.name]?.isEmpty == false, "\(table.name)")
            }
        }
    }

    @Test func `a purge deletes the organization's rows in every table`() async throws {
        let gateway = try await Gateway()
        let (rows, one, two) = try await filled(gateway, fillable)
        let before = try await dump(rows, two)
        #expect(try await gateway.store.administration.purge(one))
        for (name, left) in try await dump(rows, one) {
            let table = try #require(tables.first { $0.name == name })
            if case .keep = table.purge {
                #expect(left.count == 2, "\(name)")
                for user in users { #expect(!left.contains { $0.contains(user.lowercased) }, "\(name)") }
            } else {
                #expect(left == [], "\(name)")
            }
        }
        #expect(try await dump(rows, two) == before)
    }

    @Test func `an erasure leaves no row that names the user`() async throws {
        let gateway = try await Gateway()
        let (rows, one, two) = try await filled(gateway, fillable)
        let before = try await dump(rows, two)
        var others: [String: Int] = [:]
        for table in tables where table.users?.owner != nil {
            others[table.name] = try await count(table, rows, of: other, in: one)
        }
        var erasing = gateway.store.erasing
        erasing.settling = 0
        let erasure = try #require(try await erasing.erase(user, in: one))
        #expect(erasure.state == .done)
        #expect(try await rows.mentions(of: user.lowercased, tables, in: one) == [:])
        #expect(try await dump(rows, two) == before)
        for table in tables where table.users?.owner != nil {
            #expect(try await count(table, rows, of: other, in: one) == others[table.name], "\(table.name)")
        }
    }

    @Test func `an export has every row and every exported column of the user`() async throws {
        let gateway = try await Gateway()
        let (_, one, _) = try await filled(gateway, withoutKeys)
        let key = LaneKey(organization: one, user: user)
        var text: [UInt8] = []
        try await gateway.store.exports.run(key) { text += $0 }
        #expect(!String(decoding: text, as: UTF8.self).contains(TableRows.marker(other)))
        let lines = try text.split(separator: 0x0a).map { try JSONTree(parsing: Array($0)).root }
        for table in tables {
            guard let export = table.export else { continue }
            let kind =
                switch export {
                case .rows(let lines): lines.kind
                case .scan(let name, _, _): name
                case .step: "entity"
                }
            let found = lines.filter { $0["kind"]?.string == kind }
            #expect(found.count == 1, "\(table.name)")
            let line = try #require(found.first)
            for member in export.columns.map(\.member) {
                #expect(line.value(at: "/\(member)") != nil, "\(table.name).\(member)")
            }
            let places = ["response_body": "response/body", "sent_payload": "sent/body"]
            for column in table.sealing?.columns ?? [] {
                let member = line.value(at: "/\(places[column] ?? column)")
                let value = member?.string ?? member?["text"]?.string
                #expect(value == TableRows.marker(user), "\(table.name).\(column)")
            }
        }
    }

    @Test func `a merge assigns every row to the target user`() async throws {
        let gateway = try await Gateway()
        let (rows, one, two) = try await filled(gateway, fillable)
        let before = try await dump(rows, two)
        var counts: [String: Int] = [:]
        for table in tables where table.users?.owner != nil {
            counts[table.name] = try await count(table, rows, of: other, in: one)
        }
        var joining = gateway.store.joining
        joining.settling = 0
        let join = try #require(try await joining.join(user, into: other, in: one))
        #expect(join.state == .done)
        for table in tables {
            guard let users = table.users, users.owner != nil else { continue }
            let (own, others) = try await (
                count(table, rows, of: user, in: one), count(table, rows, of: other, in: one)
            )
            let existing = counts[table.name] ?? 0
            switch users.merge {
            case .rename, .update:
                // the target user also gets the merged user's own channel
                let granted = table.name == "channel_grants" ? 1 : 0
                #expect(own == 0 && others == existing + 1 + granted, "\(table.name)")
            case .adopt: #expect(own == 0 && others == existing, "\(table.name)")
            case .step: #expect(own == 0 && others >= existing, "\(table.name)")
            case .keep: #expect(own == 1 && others == existing, "\(table.name)")
            }
        }
        #expect(try await dump(rows, two) == before)
    }

    @Test func `sealing and key rotation seal every column`() async throws {
        let plain = try await Gateway(masterKeys: SealingTests.without)
        let (rows, one, two) = try await filled(plain, withoutKeys)
        let gateway = try await Gateway(replicaOf: plain, masterKeys: TestKeys.first)
        let rotation = gateway.store.keyRotation
        #expect(try await rotation.prepare(one))
        for number in 1...2 {
            if number == 2 { #expect(try await rotation.renew(one) == 2) }
            let sealed = try #require(try await rotation.sealRows(of: one, grace: 0) { _ in })
            #expect(sealed.unreadable == 0, "\(sealed.unreadableValues)")
            for table in tables {
                for column in table.sealing?.columns ?? [] {
                    let organization = "organization_id = '\(one.lowercased)'"
                    let values = try await gateway.rows(
                        "SELECT \(column)::text FROM \(table.name) WHERE \(organization) AND \(column) IS NOT NULL"
                    )
                    #expect(!values.isEmpty, "\(table.name).\(column)")
                    for value in values {
                        #expect(value.contains("sluice-sealed:1:\(number):"), "\(table.name).\(column): \(value)")
                    }
                }
            }
            for marker in users.map(TableRows.marker) + [TableRows.setting] {
                #expect(try await rows.mentions(of: marker, tables, in: one) == [:])
            }
        }
        #expect(try await gateway.count("organization_keys", of: one) == 1)
        #expect(try await rows.mentions(of: TableRows.marker(user), tables, in: two) != [:])
    }

    @Test func `retention deletes the old rows of every table with an age`() async throws {
        let gateway = try await Gateway()
        let rows = try await TableRows(gateway)
        let aged = tables.compactMap { table -> (table: StoredTable, kind: RetentionKind)? in
            if case .deleted(_, let kind) = table.aging { (table, kind) } else { nil }
        }
        let organization = try await gateway.organization().id
        gateway.clock.advance(seconds: 40 * Gateway.day)
        let now = "timestamptz '\(gateway.clock.now.rfc3339)'"
        // the first user's rows are old
        try await rows.fill(aged.map(\.table), of: organization, users: users) { place in
            place == 0 ? "\(now) - interval '35 days'" : now
        }
        let result = try #require(try await gateway.retain())
        #expect(result.isFinished && result.isComplete)
        for (table, _) in aged {
            #expect(try await count(table, rows, of: user, in: organization) == 0, "\(table.name)")
            #expect(try await count(table, rows, of: other, in: organization) == 1, "\(table.name)")
        }
        for kind in RetentionKind.allCases {
            #expect(result.report[kind] == aged.count { $0.kind == kind }, "\(kind)")
        }
    }
}
