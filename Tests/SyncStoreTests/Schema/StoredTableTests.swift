import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Compares the catalogue of tables with the schema, so that no table and no column is forgotten.
@Suite struct StoredTableTests {
    private static let tables = Gateway.tables

    @Test func `the catalogue describes every table and its primary key`() async throws {
        let gateway = try await Gateway()
        let found = try await gateway.rows(
            """
            SELECT c.relname || ' ' || coalesce((
                SELECT string_agg(a.attname::text, ',' ORDER BY p.place)
                FROM pg_index i
                CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS p (number, place)
                JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.number
                WHERE i.indrelid = c.oid AND i.indisprimary AND p.place <= i.indnkeyatts AND a.attname <> 'organization_id'), '')
            FROM pg_class c
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                -- the migrator makes these itself
                AND c.relname NOT IN ('schema_migrations', 'schema_migrations_lock')
            ORDER BY 1
            """
        )
        #expect(found == Self.tables.map { "\($0.name) \($0.key.joined(separator: ","))" }.sorted())
    }

    /// Erasures and merges are refused while a gateway without the newest table of users runs.
    @Test func `a migration creates each table of the catalogue`() throws {
        for table in Self.tables { #expect(Schema.newest(creating: [table.name]) != nil, "\(table.name)") }
        #expect(Schema.newest(creating: ["user_joins", "users"]) == "0017_joined_users")
        #expect(Schema.newest(creating: ["user"]) == nil)
        let required = UserFacts.requiredMigration(for: Self.tables)
        for table in Self.tables where table.users != nil {
            #expect(try #require(Schema.newest(creating: [table.name])) <= required, "\(table.name)")
        }
    }

    @Test func `the catalogue describes every column`() async throws {
        let rows = try await TableRows(Gateway())
        for table in Self.tables {
            let columns = rows.columns[table.name]?.map(\.name) ?? []
            #expect(Set(table.columns).symmetricDifference(columns) == [], "\(table.name)")
        }
    }

    @Test func `ids of users are among the columns that name users`() async throws {
        let rows = try await TableRows(Gateway())
        let names = try Regex("user|owner_id|into_id|updated_by|made_for|person")
        for table in Self.tables where table.organization != nil {
            for column in rows.columns[table.name] ?? [] where ["uuid", "_uuid"].contains(column.type) {
                guard column.name.contains(names) else { continue }
                #expect(table.users?.columns.contains(column.name) == true, "\(table.name).\(column.name)")
            }
        }
    }

    /// Content of users is JSON or text. Columns with bytes or JSON that are not sealed must be listed as open.
    @Test func `JSON and bytes are sealed, or stored openly on purpose`() async throws {
        let rows = try await TableRows(Gateway())
        let types: Set = ["json", "jsonb", "bytea", "content_hash", "mutation_fingerprint"]
        for table in Self.tables {
            let described = table.open + (table.sealing?.columns ?? [])
            for column in rows.columns[table.name] ?? [] where types.contains(column.type) {
                #expect(described.contains(column.name), "\(table.name).\(column.name)")
            }
        }
    }

    @Test func `every table with rows of users defines when they are deleted by age`() {
        // these rows remain as long as the user or the device
        let lasting: Set = [
            "lanes", "users", "user_subjects", "user_joins", "devices", "mutation_quotas", "user_keys",
            "token_channels",
        ]
        // pages end with the device's confirmation
        let confirmed: Set = ["local_id_pages"]
        for table in Self.tables where table.users?.owner != nil && table.aging == nil {
            #expect(lasting.union(confirmed).contains(table.name), "\(table.name)")
        }
    }

    @Test func `every kind of retention belongs to a table`() {
        let kinds = Self.tables.flatMap { table -> [RetentionKind] in
            switch table.aging {
            case .deleted(_, let kind): [kind]
            case .steps(let kinds): kinds
            case .pruned, nil: []
            }
        }
        #expect(Set(kinds) == Set(RetentionKind.allCases))
    }

    @Test func `columns of age and sealed rows have the form that general statements require`() async throws {
        let rows = try await TableRows(Gateway())
        for table in Self.tables {
            let types = Dictionary(uniqueKeysWithValues: (rows.columns[table.name] ?? []).map { ($0.name, $0.type) })
            if case .deleted(let age, _) = table.aging {
                #expect(types[age] == "timestamptz", "\(table.name)")
                let owner = try #require(table.users?.owner)
                #expect(table.key.count == 2 && table.key[0] == owner && types[table.key[1]] == "uuid")
            }
            if case .lane(let columns) = table.sealing {
                #expect(table.key.last.map { types[$0] } == "uuid", "\(table.name)")
                for column in columns {
                    #expect(types["\(column.name)"] == (column.isText ? "text" : "json"), "\(column.name)")
                }
            }
        }
    }

    @Test func `every sealed column has its own place`() {
        let (user, id) = (UUID(), UUID())
        let places = Self.tables.flatMap { table -> [SealedPlace] in
            if case .lane(let columns) = table.sealing { columns.map { $0.place(user, id) } } else { [] }
        }
        #expect(Set(places).count == places.count)
    }

    @Test func `the column catalogue has the types of the schema`() async throws {
        let rows = try await TableRows(Gateway())
        let found = rows.columns["mutations"]?.map { "\($0.name) \($0.type)" } ?? []
        #expect(Set(MutationColumn.all.map { "\($0.name) \($0.type)" }).symmetricDifference(found) == [])
        #expect(Set(MutationColumn.all.map { "\($0.name)" }).count == MutationColumn.all.count)
    }

    /// Details that operators see must omit content, unless separate code shows it.
    @Test func `details show no content without further code`() {
        for column in MutationColumn.shown {
            if case .plain = column.content { continue }
            Issue.record("\(column.name) names users or has content")
        }
    }
}
