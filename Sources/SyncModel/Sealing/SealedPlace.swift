public import FoundationEssentials
import JSONText

/// The place of a sealed value, which consists of the organization, the column and the row.
///
/// The place is authenticated together with the value. Therefore a ciphertext that was moved to another organization,
/// column or row cannot be opened.
public enum SealedPlace: Sendable, Hashable {
    case mutation(Column, user: UUID, id: UUID)
    /// The error of a refused entry.
    case rejection(user: UUID, key: UUID)
    case document(type: String, id: String)
    case upstream(UpstreamColumn)
    /// The document of a parked event.
    case parked(source: String, event: String)
    /// A secret of a webhook's endpoint.
    case webhook(WebhookColumn, UUID)
    /// A secret of a source of events.
    case source(SourceColumn, String)
    /// A column of a user's row in another table.
    case numbered(NumberedColumn, user: UUID, id: UUID)

    /// The sealed columns of a mutation. The numbers are part of the stored form.
    public enum Column: UInt8, Sendable, Hashable {
        case payload = 1
        case headers = 2
        case sentPayload = 3
        case responseBody = 4
        case error = 5
        case lastError = 6
    }

    /// The sealed columns of an upstream. The numbers are part of the stored form.
    public enum UpstreamColumn: UInt8, Sendable, Hashable {
        case credential = 9
        case headers = 10
    }

    /// The sealed columns of a webhook's endpoint. The numbers are part of the stored form.
    public enum WebhookColumn: UInt8, Sendable, Hashable {
        case secret = 11
        case previousSecret = 12
    }

    /// The sealed columns of a source. The numbers are part of the stored form.
    public enum SourceColumn: UInt8, Sendable, Hashable {
        case secret = 14
        case previousSecret = 15
    }

    /// A sealed column of a table for which this enumeration has no separate case. The number is part of the stored
    /// form.
    public struct NumberedColumn: Sendable {
        let number: UInt8
        let name: StaticString
        let table: StaticString

        /// - Parameter number: a number above ``SealedPlace/lastNumber``.
        public init(number: UInt8, name: StaticString, table: StaticString) {
            precondition(number > SealedPlace.lastNumber)
            self.number = number
            self.name = name
            self.table = table
        }
    }

    /// The highest number among the columns of the other cases.
    public static let lastNumber: UInt8 = 15

    /// Compares texts by their bytes.
    public static func == (left: SealedPlace, right: SealedPlace) -> Bool { left.bytes == right.bytes }

    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    private var bytes: [UInt8] { authenticated(in: Writer.noDevice) }

    /// The place of the value after its row was moved to another user.
    public func moved(to user: UUID) -> SealedPlace {
        switch self {
        case .mutation(let column, _, let id): .mutation(column, user: user, id: id)
        case .rejection(_, let key): .rejection(user: user, key: key)
        case .numbered(let column, _, let id): .numbered(column, user: user, id: id)
        case .document, .upstream, .parked, .webhook, .source: self
        }
    }

    /// The user who owns the row; nil if the row does not determine the user.
    var user: UUID? {
        switch self {
        case .mutation(_, let user, _), .rejection(let user, _), .numbered(_, let user, _): user
        case .document, .upstream, .parked, .webhook, .source: nil
        }
    }

    private var column: UInt8 {
        switch self {
        case .mutation(let column, _, _): column.rawValue
        case .rejection: 7
        case .document: 8
        case .upstream(let column): column.rawValue
        case .parked: 13
        case .webhook(let column, _): column.rawValue
        case .source(let column, _): column.rawValue
        case .numbered(let column, _, _): column.number
        }
    }

    /// The name of the place, for a log.
    public var name: String {
        switch self {
        case .mutation(let column, _, _): "\(column) of a mutation"
        case .rejection: "error of a refused entry"
        case .document: "document"
        case .upstream(let column): "\(column) of an upstream"
        case .parked: "document of a parked event"
        case .webhook(let column, _): "\(column) of a webhook"
        case .source(let column, _): "\(column) of a source"
        case .numbered(let column, _, _): "\(column.name) of \(column.table)"
        }
    }

    /// The member of a response that contains the value.
    var member: String {
        switch self {
        case .mutation(.payload, _, _): "payload"
        case .mutation(.headers, _, _), .upstream(.headers): "headers"
        case .mutation(.sentPayload, _, _): "sent_payload"
        case .mutation(.responseBody, _, _): "response"
        case .mutation(.error, _, _), .rejection: "error"
        case .mutation(.lastError, _, _): "last_error"
        case .document, .parked: "document"
        case .upstream(.credential): "credential"
        case .webhook(.secret, _), .source(.secret, _): "secret"
        case .webhook(.previousSecret, _), .source(.previousSecret, _): "previous_secret"
        case .numbered(let column, _, _): "\(column.name)"
        }
    }

    /// The identifier of the row, for a log. The text contains no content of the row.
    public var row: String {
        switch self {
        case .mutation(_, let user, let id): "mutation \(id.lowercased) of user \(user.lowercased)"
        case .rejection(let user, let key): "refused entry with key \(key.lowercased) of user \(user.lowercased)"
        case .document(let type, let id): "entity \(id) of type \(type)"
        case .upstream: "upstream"
        case .parked(let source, let event): "event \(event) of source \(source)"
        case .webhook(_, let id): "webhook \(id.lowercased)"
        case .source(_, let name): "source \(name)"
        case .numbered(_, let user, let id): "row \(id.lowercased) of user \(user.lowercased)"
        }
    }

    /// The authenticated bytes.
    ///
    /// The bytes are the version, the organization, the user whose key seals the value (only in the second version),
    /// the column and the row. No two places have the same bytes, because each part except the last has a fixed length
    /// or a terminator.
    func authenticated(in organization: UUID, under keyUser: UUID? = nil) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(80)
        bytes.append(keyUser == nil ? 1 : 2)
        bytes.append(organization)
        if let keyUser { bytes.append(keyUser) }
        bytes.append(column)
        switch self {
        case .mutation(_, let user, let id), .numbered(_, let user, let id):
            bytes.append(user)
            bytes.append(id)
        case .rejection(let user, let key):
            bytes.append(user)
            bytes.append(key)
        case .document(let type, let id):
            bytes += type.utf8
            bytes.append(0)
            bytes += id.utf8
        case .upstream: break
        case .parked(let source, let event):
            bytes += source.utf8
            bytes.append(0)
            bytes += event.utf8
        case .webhook(_, let id): bytes.append(id)
        case .source(_, let name): bytes += name.utf8
        }
        return bytes
    }
}
