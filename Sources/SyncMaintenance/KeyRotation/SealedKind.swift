import Postgres
import SyncStore

/// A kind of rows that hold sealed values: how those are found, read and written that are to be sealed anew.
protocol SealedKind: Sendable {
    associatedtype Key: Sendable

    /// Reads a page of keys from a place on, and of each whether its row is to be sealed anew. Its parameters: the place,
    /// how many, how what is sealed begins in JSON and, where there is a text, in texts.
    var page: Statement { get }
    var hasText: Bool { get }
    /// Where the first page begins.
    var first: Key { get }
    func place(_ key: Key) -> Parameters
    func key(_ row: inout RowReader) throws -> Key
    /// Where the page after one that ends with this key begins; nil: nowhere.
    func next(after key: Key) -> Key?

    /// Locks rows and reads them: the last query does.
    func read(_ keys: [Key]) -> [Query]
    /// What writes a row with its values sealed anew; nil where there is nothing to write.
    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query?
}
