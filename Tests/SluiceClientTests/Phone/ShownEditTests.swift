import Testing

@testable import SluiceClient

/// The displayed state of an entity: its base, and the edits on top of it.
@Suite struct ShownEditTests {
    private static let patch = Edit(operation: .update, payload: ["name": .string("Ola")])
    private static let whole: JSON = ["name": .string("Kari"), "phone": .string("1")]
    private static let patched: JSON = ["name": .string("Ola"), "phone": .string("1")]

    /// A rejected patch that is retried is queued after a deletion that was made in between.
    @Test func `a patch after a deletion is applied to the last document`() {
        let create = Edit(operation: .create, payload: Self.whole)
        let delete = Edit(operation: .delete, payload: nil)
        let known = ServerSnapshot(version: 1, etag: nil, isDeleted: false, document: Self.whole)
        let deleted = ServerSnapshot(version: 2, etag: nil, isDeleted: true, document: Self.whole)
        #expect(Edit.shown([create, delete], on: nil) == nil)
        #expect(Edit.shown([create, delete, Self.patch], on: nil) == Self.patched)
        #expect(Edit.shown([delete, Self.patch], on: known) == Self.patched)
        #expect(Edit.shown([Self.patch, delete, Edit(operation: .update, payload: [:])], on: known) == Self.patched)
        #expect(Edit.shown([Self.patch], on: deleted) == Self.patched)
        #expect(Edit.shown([], on: deleted) == nil)
    }
}
