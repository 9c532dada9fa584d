import JSONText
import SyncModel

/// The query of a collection.
///
/// The list contains all documents, ordered by id. With `view=changes`, it contains changes and deletions, the oldest
/// first, each with its `version` and `updated_at`. `updated_since` excludes older changes. `limit` sets the size of
/// pages. A `Link` with `rel="next"` (RFC 8288) contains the URL of the next page.
struct DemoList: Sendable {
    struct Deletion: Sendable {
        let id: Int
        let version: Int
        let at: Timestamp
    }

    /// The default number of items in a page.
    private static let defaultLimit = 100

    private let showsChanges: Bool
    private let since: Timestamp?
    private let limit: Int
    /// The last item of the previous page.
    private let after: Place?
    /// The query without ``after``.
    private let query: [(name: String, value: String)]

    /// The position of an item in the list.
    private struct Place: Comparable {
        /// The time of change; nil in a list by id.
        let at: Timestamp?
        let id: Int

        static func < (left: Place, right: Place) -> Bool {
            (left.at?.microseconds ?? 0, left.id) < (right.at?.microseconds ?? 0, right.id)
        }
    }

    private struct Item {
        let place: Place
        let version: Int
        let updatedAt: Timestamp
        /// The document; nil if it was deleted.
        let document: DemoDocument?
    }

    /// Reads the query; nil if the query is invalid.
    init?(_ request: DemoRequest) {
        showsChanges = request.parameter("view") == "changes"
        var query: [(String, String)] = []
        if showsChanges { query.append(("view", "changes")) }
        if let text = request.parameter("updated_since") {
            guard let moment = Timestamp(rfc3339: text) else { return nil }
            since = moment
            query.append(("updated_since", text.replacing(":", with: "%3A").replacing("+", with: "%2B")))
        } else {
            since = nil
        }
        if let text = request.parameter("limit") {
            guard let number = Int(text), (1...1_000).contains(number) else { return nil }
            limit = number
            query.append(("limit", text))
        } else {
            limit = showsChanges ? Self.defaultLimit : Int.max
        }
        if let text = request.parameter("after") {
            let parts = text.split(separator: "-").compactMap { Int64($0) }
            guard (1...2).contains(parts.count), let id = parts.last else { return nil }
            after = Place(at: parts.count == 2 ? Timestamp(microseconds: parts[0]) : nil, id: Int(id))
        } else {
            after = nil
        }
        self.query = query
    }

    /// Returns the page without its `ETag`.
    func answer(_ documents: [DemoDocument], _ deletions: [Deletion], path: String) -> DemoAnswer {
        var items = documents.map { document in
            Item(
                place: Place(at: showsChanges ? document.updatedAt : nil, id: document.id),
                version: document.version,
                updatedAt: document.updatedAt,
                document: document
            )
        }
        if showsChanges {
            items += deletions.map {
                Item(place: Place(at: $0.at, id: $0.id), version: $0.version, updatedAt: $0.at, document: nil)
            }
        }
        let found = items.filter { item in
            (since.map { item.updatedAt >= $0 } ?? true) && (after.map { item.place > $0 } ?? true)
        }
        let sorted = found.sorted { $0.place < $1.place }
        var writer = JSONWriter()
        writer.beginArray()
        for item in sorted.prefix(limit) { write(item, to: &writer) }
        writer.endArray()
        var answer = DemoAnswer(status: 200, body: writer.bytes)
        if sorted.count > limit, let last = sorted.prefix(limit).last { answer.link = next(path, behind: last.place) }
        return answer
    }

    private func next(_ path: String, behind place: Place) -> String {
        let after = (place.at.map { "\($0.microseconds)-" } ?? "") + "\(place.id)"
        let query = (query + [("after", after)]).map { "\($0.0)=\($0.1)" }.joined(separator: "&")
        return "<\(path)?\(query)>; rel=\"next\""
    }

    private func write(_ item: Item, to writer: inout JSONWriter) {
        guard showsChanges else {
            item.document?.write(to: &writer)
            return
        }
        writer.beginObject()
        writer.member("id", item.place.id)
        writer.member("version", item.version)
        writer.member("updated_at", item.updatedAt.rfc3339)
        writer.member("deleted", item.document == nil)
        if let document = item.document {
            writer.name("document")
            document.write(to: &writer)
        }
        writer.endObject()
    }
}
