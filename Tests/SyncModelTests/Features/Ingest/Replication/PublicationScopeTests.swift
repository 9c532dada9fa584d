import JSONText
import Testing

@testable import IngestFeature
@testable import SyncModel

/// Which changes of a publication may lose edits.
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
        change(&table)
        return PublicationScope(name: "sluice", oid: 9, revision: "700", row: "-5", tables: [table])
    }

    private static func loss(_ change: (inout PublicationScope.Table) -> Void) -> String? {
        scope(change).loss(since: scope())
    }

    @Test func `an unchanged scope, and one that grew, lose nothing`() {
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
