public import FoundationEssentials
import JSONText

/// The relative path to which a mutation is replayed, with an optional query.
///
/// See specification 001 (docs/spec), `endpoint_must_be_relative_path`. The path may contain client ids at any place,
/// and `{local_id}` instead of the id of the mutation's own entity.
public struct Endpoint: Sendable, Hashable {
    public static let maximumBytes = 2_048

    /// The path as the client wrote it.
    @Exact public private(set) var text: String

    public init(_ text: String) throws(Malformed) {
        guard text.utf8.count <= Endpoint.maximumBytes else { throw Malformed("is longer than 2048 bytes") }
        if let problem = PathRules.problem(in: text) { throw Malformed(problem) }
        self.text = text
    }

    /// Creates an endpoint with a path that breaks the present rules.
    ///
    /// The endpoint is used only to compare it with an accepted path.
    init(refused text: String) {
        self.text = text
    }

    /// The error in a path.
    public struct Malformed: Error, Hashable {
        /// The error. The text continues a sentence that begins with "endpoint", such as "endpoint has a backslash".
        public let reason: String

        init(_ reason: String) {
            self.reason = reason
        }
    }

    /// Every UUID in the path and query, in order.
    ///
    /// Each of these UUIDs can be a client id.
    public var uuids: [UUID] {
        var found: [UUID] = []
        scan { uuid, _ in found.append(uuid) }
        return found
    }

    /// The path with the ids that `replacement` returns in place of the UUIDs.
    ///
    /// A UUID for which `replacement` returns nil stays unchanged. The inserted ids are percent-encoded.
    public func rewritten(_ replacement: (UUID) -> ServerID?) -> String {
        let bytes = Array(text.utf8)
        var output: [UInt8] = []
        var copied = 0
        scan { uuid, range in
            guard let id = replacement(uuid) else { return }
            output += bytes[copied..<range.lowerBound]
            output += PercentEncoding.encoded(id.text)
            copied = range.upperBound
        }
        output += bytes[copied...]
        return String(decoding: output, as: UTF8.self)
    }

    /// The path with server ids in place of client ids.
    ///
    /// The entity's own server id also replaces `{local_id}`.
    ///
    /// - Parameter own: the entity's server id; nil to leave `{local_id}` unchanged.
    public func resolved(own: ServerID?, _ replacement: (UUID) -> ServerID?) -> String {
        let path = rewritten(replacement)
        guard let own, path.utf8.contains(0x7b) else { return path }
        return path.replacing("{local_id}", with: Endpoint.encoded(own))
    }

    private static func encoded(_ id: ServerID) -> String {
        String(decoding: PercentEncoding.encoded(id.text), as: UTF8.self)
    }

    /// Appends the text for the fingerprint, in which a marker replaces every UUID.
    ///
    /// The replaced UUIDs are appended to `identifiers`.
    func appendCanonical(to output: inout [UInt8], identifiers: inout [UUID]) {
        let bytes = Array(text.utf8)
        var copied = 0
        scan { uuid, range in
            output += bytes[copied..<range.lowerBound]
            output.append(JSONValue.identifierMarker)
            identifiers.append(uuid)
            copied = range.upperBound
        }
        output += bytes[copied...]
    }

    /// Whether a UUID in the path is recognized only because an escape before it is decoded.
    var hasUUIDBehindEscape: Bool {
        let bytes = Array(text.utf8)
        var hasOne = false
        scan { _, range in hasOne = hasOne || range.lowerBound > 0 && Endpoint.isIDByte(bytes[range.lowerBound - 1]) }
        return hasOne
    }

    /// Calls `visit` with each UUID and its byte range.
    ///
    /// A UUID is recognized if no other hex digit or hyphen directly precedes or follows the UUID. An escape before the
    /// UUID, as in `ids=…%2C…`, is treated as the byte that it encodes.
    func scan(_ visit: (UUID, Range<Int>) -> Void) {
        var text = text
        text.withUTF8 { bytes in
            guard bytes.count >= 36 else { return }
            var start = 0
            while start + 36 <= bytes.count {
                let followed = start + 36 < bytes.count && Endpoint.isIDByte(bytes[start + 36])
                let preceded =
                    start > 0 && Endpoint.isIDByte(bytes[start - 1]) && !Endpoint.isEscape(bytes, before: start)
                if !followed, !preceded, bytes[start + 8] == 0x2d,
                    let uuid = UUID(text: UnsafeBufferPointer(rebasing: bytes[start..<start + 36]))
                {
                    visit(uuid, start..<start + 36)
                    start += 36
                } else {
                    start += 1
                }
            }
        }
    }

    /// Whether an escape ends at `end`, and the encoded byte can be next to a UUID.
    private static func isEscape(_ bytes: UnsafeBufferPointer<UInt8>, before end: Int) -> Bool {
        guard end >= 3, bytes[end - 3] == 0x25, let byte = PercentEncoding.escape(bytes[end - 2..<end]) else {
            return false
        }
        return !isIDByte(byte)
    }

    static func isIDByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 48...57, 65...70, 97...102, 0x2d: true
        default: false
        }
    }
}

extension Endpoint {
    /// A replaced part of a path in the canonical form.
    enum CanonicalPart {
        /// A UUID, which a marker replaces. The associated value is the length of the replaced part in bytes.
        case identifier(length: Int)
        /// A server id, which replaces a UUID.
        case serverID(ServerID)
    }

    /// Appends the canonical form of this path, after some ids are replaced.
    ///
    /// See ``appendCanonical(to:identifiers:)``.
    ///
    /// - Parameter replacement: called for each byte with the rest of the path, the UUID that begins at this byte (or
    ///   nil), and the offset in `output`. If it returns nil, the byte is appended unchanged.
    func appendCanonical(
        to output: inout [UInt8],
        replacing replacement: (ArraySlice<UInt8>, UUID?, Int) -> CanonicalPart?
    ) {
        let bytes = Array(text.utf8)
        var uuids: [Int: UUID] = [:]
        scan { uuid, range in uuids[range.lowerBound] = uuid }
        var position = 0
        while position < bytes.count {
            switch replacement(bytes[position...], uuids[position], output.count) {
            case nil:
                output.append(bytes[position])
                position += 1
            case .identifier(let length):
                output.append(JSONValue.identifierMarker)
                position += length
            case .serverID(let id):
                output += PercentEncoding.encoded(id.text)
                position += Endpoint.uuidBytes
            }
        }
    }

    static let uuidBytes = 36

    /// The length, in bytes, of an id at the start of a path. The id may be percent-encoded.
    ///
    /// Nil if the path does not begin with the id, or if the next byte could not follow a UUID.
    static func length(of id: ServerID, at path: ArraySlice<UInt8>) -> Int? {
        var rest = path
        for byte in id.text.utf8 {
            if rest.first == 0x25, PercentEncoding.escape(rest.dropFirst().prefix(2)) == byte {
                rest = rest.dropFirst(3)
            } else if rest.first == byte {
                rest = rest.dropFirst()
            } else {
                return nil
            }
        }
        if let next = rest.first, isIDByte(next) { return nil }
        return path.count - rest.count
    }
}
