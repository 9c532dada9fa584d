package import Postgres
package import SyncModel

/// A kind of rows with sealed values.
///
/// It defines how to find, read and write those that are to be sealed again.
package protocol SealedKind: Sendable {
    associatedtype Key: Sendable

    /// Reads a page of keys from a place on, with a flag for rows to be sealed again.
    ///
    /// Its parameters: the place, the limit, and what ``add(_:_:to:)`` adds.
    var page: Statement { get }
    /// Adds the beginnings of correctly sealed values.
    ///
    /// They are sealed under the data key of that number, and with users' own keys where the organization has them.
    func add(_ number: Int32, _ seal: Seal, to parameters: inout Parameters)
    /// Where the first page begins.
    var first: Key { get }
    func place(_ key: Key) -> Parameters
    func key(_ row: inout RowReader) throws -> Key
    /// Where the page behind this key begins; nil at the end.
    func next(after key: Key) -> Key?

    /// Locks rows and reads them: the last query does.
    func read(_ keys: [Key]) -> [Query]
    /// Reads the same without locks.
    func find(_ keys: [Key]) -> Query
    /// The query that writes a row with its values sealed again; nil if not needed.
    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query?
}

/// Documents.
///
/// They are sealed with their owners' keys where only the owner sees those of their type.
package protocol SealedDocuments: SealedKind {}

extension SealedDocuments {
    package func add(_ number: Int32, _ seal: Seal, to parameters: inout Parameters) {
        parameters.add(SealedText.beginning(number: number, isJSON: true))
        parameters.add(seal.privateTypes.map(\.string).sorted())
        parameters.add(SealedText.beginning(number: number, isJSON: true).dropLast() + ".")
    }
}
