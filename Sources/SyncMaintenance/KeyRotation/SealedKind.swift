import Postgres
import SyncStore

/// A kind of rows with sealed values: how to find, read and write those that are to be sealed anew.
protocol SealedKind: Sendable {
    associatedtype Key: Sendable

    /// Reads a page of keys from a place on, with a flag for rows to be sealed anew. Its parameters: the place, the
    /// limit, the beginning of sealed JSON values and, where the rows have a text column, of sealed texts.
    var page: Statement { get }
    var hasText: Bool { get }
    /// Where the first page begins.
    var first: Key { get }
    func place(_ key: Key) -> Parameters
    func key(_ row: inout RowReader) throws -> Key
    /// Where the page behind this key begins; nil at the end.
    func next(after key: Key) -> Key?

    /// Locks rows and reads them: the last query does.
    func read(_ keys: [Key]) -> [Query]
    /// The query that writes a row with its values sealed anew; nil where there is nothing to write.
    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query?
}
