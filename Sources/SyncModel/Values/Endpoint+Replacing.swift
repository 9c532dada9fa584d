import Foundation
import JSONText

extension Endpoint {
    /// A replaced part of a path in the canonical form.
    enum CanonicalPart {
        /// Represents any UUID; the part's length in bytes.
        case identifier(length: Int)
        /// A server id, in place of a UUID.
        case serverID(ServerID)
    }

    /// Appends the canonical form of this path with some of its ids replaced.
    ///
    /// See ``appendCanonical(to:identifiers:)``.
    ///
    /// - Parameter replacement: called at each byte with the rest of the path, the UUID at this byte, if any, and the
    ///   offset in `output`; nil leaves the byte.
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

    /// The length in bytes of an id at the start of a path, percent-encoded or not.
    ///
    /// Nil where the path does not begin with the id, or where the bytes after it could not follow a UUID.
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
