import Foundation
import JSONText

extension Endpoint {
    /// What stands in the canonical form for a part of a path.
    enum CanonicalPart {
        /// What every UUID becomes; the part's length in bytes.
        case identifier(length: Int)
        /// A server id, for the UUID that stands here.
        case serverID(ServerID)
    }

    /// Appends the canonical form (``appendCanonical(to:identifiers:)``) that this path would have with others in the
    /// place of some of its ids.
    ///
    /// - Parameter replacement: asked at each byte with what is left of the path, the UUID that stands here, if one does,
    ///   and the place in `output`; nil leaves what is here.
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

    /// How many bytes of a path are an id, percent-encoded or not; nil where it does not begin with it, or where what
    /// follows could not have followed a UUID.
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
