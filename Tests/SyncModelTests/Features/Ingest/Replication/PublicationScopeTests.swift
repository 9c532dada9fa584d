import JSONText
import Testing

@testable import IngestFeature
@testable import SyncModel

/// The changes of a publication that may lose edits.
@Suite struct PublicationScopeTests {
    private static let contact = QualifiedName(schema: "public", name: "contact")

    private static func scope(_ change: (inout PublicationScope.Table) -> Void = { _ in }) -> PublicationScope {
        var table = PublicationScope.Table(
            name: contact,
            oid: 16_400,
            members: ["table 1", "schema 2"],
            filter: "",
            columns: [1, 2]
        )
        table.relations = [relation(16_400, ""), relation(16_410, "701")]
        table.definitions = [definition(1), definition(2)]
        change(&table)
        return PublicationScope(name: "sluice", oid: 9, revision: "700", row: "-5", tables: [table])
    }

    private static func relation(_ oid: Int64, _ attachment: String) -> PublicationScope.Relation {
        PublicationScope.Relation(oid: oid, attachment: attachment, file: oid, toast: oid + 1)
    }

    private static func definition(_ number: Int64) -> PublicationScope.Definition {
        PublicationScope.Definition(number: number, revision: "700")
    }

    private static func rewrites(_ change: (inout PublicationScope.Table) -> Void) -> [String] {
        scope(change).rewrites(since: scope())
    }

    private static func loss(_ change: (inout PublicationScope.Table) -> Void) -> String? {
        scope(change).loss(since: scope())
    }

    @Test func `neither an unchanged scope nor a scope that grew loses changes`() {
        #expect(Self.loss { _ in } == nil)
        #expect(Self.loss { $0.columns = [1, 2, 3] } == nil)
        #expect(Self.loss { ($0.columns, $0.members) = (nil, ["table 3"]) } == nil)
        #expect(Self.loss { $0.members = ["schema 2"] } == nil)
        #expect(Self.loss { $0.name = QualifiedName(schema: "public", name: "person") } == nil)
    }

    @Test func `a table that is dropped, replaced, removed or narrowed loses changes`() {
        #expect(Self.loss { $0.oid = 16_500 }?.contains("dropped and created again") == true)
        #expect(Self.loss { $0 = PublicationScope.Table(dropped: Self.contact) } != nil)
        #expect(Self.loss { $0.members = [] }?.contains("does not publish changes of table public.contact") == true)
        #expect(Self.loss { $0.isPublished = false } != nil)
        #expect(Self.loss { $0.filter = "17" }?.contains("condition") == true)
        #expect(Self.loss { $0.columns = [1, 3] }?.contains("column list") == true)
        #expect(Self.loss { $0.members = ["table 3"] }?.contains("removed from it and added again") == true)
    }

    @Test func `a partition that was detached and attached again loses changes`() {
        #expect(Self.loss { $0.relations[1].attachment = "702" }?.contains("detached and attached again") == true)
    }

    @Test func `a table that ALTER TABLE rewrote without a new column loses changes, unless it cannot be unlogged`() {
        let rewrite = { (table: inout PublicationScope.Table) in
            (table.relations[1].file, table.relations[1].toast) = (1, 2)
        }
        #expect(Self.loss(rewrite)?.contains("SET UNLOGGED") == true)
        #expect(
            Self.loss { table in
                rewrite(&table)
                table.relations[1].isProtected = true
            } == nil
        )
        let altered = { (table: inout PublicationScope.Table) in
            rewrite(&table)
            table.definitions[0].revision = "703"
        }
        #expect(Self.loss(altered) == nil)
        #expect(Self.rewrites(altered) == ["table public.contact was rewritten by ALTER TABLE"])
        // VACUUM FULL, CLUSTER, TRUNCATE
        #expect(Self.loss { $0.relations[0].file = 1 } == nil)
        #expect(Self.rewrites { $0.relations[0].file = 1 }.isEmpty)
    }

    @Test func `any rewrite of a table without large values may have been SET UNLOGGED`() {
        var before = Self.scope()
        before.tables[0].relations[0].toast = 0
        var after = before
        after.tables[0].relations[0].file = 1
        #expect(after.loss(since: before)?.contains("SET UNLOGGED") == true)
    }

    @Test func `a rewrite that only stores a default in the rows is no change of a column`() {
        var before = Self.scope()
        before.tables[0].definitions[0].fillsRows = true
        var after = before
        after.tables[0].definitions[0] = PublicationScope.Definition(number: 1, revision: "704")
        #expect(after.loss(since: before) == nil && after.rewrites(since: before).isEmpty)
        (after.tables[0].relations[0].file, after.tables[0].relations[0].toast) = (1, 2)
        #expect(after.loss(since: before)?.contains("SET UNLOGGED") == true)
    }

    @Test func `reports new columns with a default, and partitions that come with rows or go`() {
        #expect(Self.rewrites { $0.definitions.append(Self.definition(3)) }.isEmpty)
        #expect(
            Self.rewrites {
                $0.definitions.append(PublicationScope.Definition(number: 3, revision: "705", fillsRows: true))
            } == ["table public.contact has a new column with a default"]
        )
        var partition = Self.relation(16_420, "706")
        partition.name = "public.contact_2"
        #expect(Self.rewrites { $0.relations.append(partition) }.isEmpty)
        partition.isEmpty = false
        #expect(
            Self.rewrites { $0.relations.append(partition) }
                == ["table public.contact_2 became a partition of table public.contact"]
        )
        #expect(
            Self.rewrites { $0.relations.removeLast() }
                == ["1 partition(s) of table public.contact were detached or dropped"]
        )
    }

    @Test func `reads relations and columns from the catalog's text`() throws {
        let relation = try #require(PublicationScope.Relation("7:700:8:9:pe:a.\"b:c\""))
        #expect(relation.name == "a.\"b:c\"" && relation.isProtected && relation.isEmpty && !relation.isLogged)
        #expect(relation.stored == "7:700:8:9")
        #expect(PublicationScope.Relation("7:700") == nil)
        #expect(PublicationScope.Definition("3:700:f")?.stored == "3:700:f")
    }

    @Test func `a publication that is created again, or changed and changed back, loses changes`() {
        var scope = Self.scope()
        scope.revision = "701"
        #expect(scope.loss(since: Self.scope())?.contains("changed back") == true)
        // another property was changed, such as truncate
        scope.row = "6"
        #expect(scope.loss(since: Self.scope()) == nil)
        scope.oid = 10
        #expect(scope.loss(since: Self.scope())?.contains("created again") == true)
        scope.name = "other"
        #expect(scope.loss(since: Self.scope()) == nil)
    }

    @Test func `a state keeps its scope and its gap`() throws {
        var state = ReplicationState(slot: "s", system: "1", base: 0, confirmed: "0/0")
        state.scope = Self.scope()
        state.gap = "it was dropped"
        #expect(ReplicationState(state.json) == state)
        state.scope?.tables[0].columns = nil
        #expect(ReplicationState(state.json) == state)
    }
}
