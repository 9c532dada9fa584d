public import Foundation
import JSONText

/// A relative path to replay a mutation against (seed 001, `endpoint_must_be_relative_path`), with an optional query.
///
/// Client ids may stand anywhere in it, and `{local_id}` stands for the mutation's own entity.
public struct Endpoint: Sendable, Hashable {
    /// The most bytes that an endpoint may have.
    public static let maximumBytes = 2_048

    /// The path as the client wrote it.
    public let text: String

    /// Checks a path; the error says what is wrong with it.
    public init(_ text: String) throws(Refusal) {
        let bytes = text.utf8
        guard bytes.count <= Endpoint.maximumBytes else { throw Refusal("is longer than 2048 bytes") }
        guard bytes.first == 0x2f else { throw Refusal("must start with one '/', without scheme or host") }
        guard bytes.dropFirst().first != 0x2f else { throw Refusal("must start with one '/' only: '//' names a host") }
        for byte in bytes {
            switch byte {
            case 0...0x20, 0x7f: throw Refusal("has a space or a control character; percent-encode it")
            case 0x5c: throw Refusal("has a backslash")
            case 0x23: throw Refusal("has a fragment ('#')")
            default: break
            }
        }
        let path = bytes.prefix { $0 != 0x3f }
        for segment in path.split(separator: 0x2f) where try Endpoint.isDots(segment) {
            throw Refusal("has a '.' or '..' segment")
        }
        self.text = text
    }

    /// What is wrong with a path; reads on from "endpoint …".
    public struct Refusal: Error, Hashable {
        /// For instance "has a backslash".
        public let reason: String

        init(_ reason: String) {
            self.reason = reason
        }
    }

    /// Every UUID-shaped run in the path and query, in order: the places where a client id may stand.
    public var uuids: [UUID] {
        var found: [UUID] = []
        scan { uuid, _ in found.append(uuid) }
        return found
    }

    /// The path with each UUID for which `replacement` has an answer put in its place, percent-encoded.
    public func rewritten(_ replacement: (UUID) -> ServerID?) -> String {
        let bytes = Array(text.utf8)
        var output: [UInt8] = []
        var copied = 0
        scan { uuid, range in
            guard let id = replacement(uuid) else { return }
            output += bytes[copied..<range.lowerBound]
            output += Endpoint.percentEncoded(id.text)
            copied = range.upperBound
        }
        output += bytes[copied...]
        return String(decoding: output, as: UTF8.self)
    }

    /// The path with server ids in the place of client ids, and in the place of `{local_id}` the entity's own.
    ///
    /// - Parameter own: what `{local_id}` stands for; nil leaves it.
    public func resolved(own: ServerID?, _ replacement: (UUID) -> ServerID?) -> String {
        let path = rewritten(replacement)
        guard let own, path.utf8.contains(0x7b) else { return path }
        return path.replacingOccurrences(of: "{local_id}", with: Endpoint.encoded(own))
    }

    /// Whether a path with ids in place still leads below where it starts: an id may be `..`, or hold an encoded slash
    /// that makes a new segment after some proxies.
    static func staysBelow(_ path: String) -> Bool {
        // byte by byte: with an accent behind it a slash is another character to Swift, and still a slash to servers
        let text = String(path.unicodeScalars.prefix { $0 != "?" }).removingPercentEncoding ?? ".."
        return text.utf8.split { $0 == 0x2f || $0 == 0x5c }
            .allSatisfy { !$0.elementsEqual(".".utf8) && !$0.elementsEqual("..".utf8) }
    }

    private static func encoded(_ id: ServerID) -> String {
        String(decoding: percentEncoded(id.text), as: UTF8.self)
    }

    /// The text with every UUID cut out and a marker in its place, for the fingerprint; the UUIDs go to `identifiers`.
    func appendCanonical(to output: inout [UInt8], identifiers: inout [UUID]) {
        let bytes = Array(text.utf8)
        var copied = 0
        scan { uuid, range in
            output += bytes[copied..<range.lowerBound]
            output.append(0x01)
            identifiers.append(uuid)
            copied = range.upperBound
        }
        output += bytes[copied...]
    }

    /// Calls `visit` with each UUID and its byte range. A UUID counts when no other hex digit or hyphen touches it.
    private func scan(_ visit: (UUID, Range<Int>) -> Void) {
        var text = text
        text.withUTF8 { bytes in
            guard bytes.count >= 36 else { return }
            var start = 0
            while start + 36 <= bytes.count {
                let followed = start + 36 < bytes.count && Endpoint.isIDByte(bytes[start + 36])
                let preceded = start > 0 && Endpoint.isIDByte(bytes[start - 1])
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

    private static func isIDByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 48...57, 65...70, 97...102, 0x2d: true
        default: false
        }
    }

    /// Whether a segment is `.` or `..`, percent-encoded dots included.
    private static func isDots(_ segment: Substring.UTF8View) throws(Refusal) -> Bool {
        var count = 0
        var onlyDots = true
        var rest = segment
        while let byte = rest.popFirst() {
            guard byte == 0x25 else {
                if byte == 0x2e { count += 1 } else { onlyDots = false }
                continue
            }
            guard let high = rest.popFirst().flatMap(hexValue), let low = rest.popFirst().flatMap(hexValue) else {
                throw Refusal("has a '%' that two hex digits do not follow")
            }
            switch high << 4 | low {
            case 0x2e: count += 1
            // an encoded slash or backslash would make a new segment after some proxies
            case 0x2f, 0x5c: throw Refusal("has an encoded slash or backslash")
            case 0...0x1f, 0x7f: throw Refusal("has an encoded control character")
            default: onlyDots = false
            }
        }
        return onlyDots && (1...2).contains(count)
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }

    /// RFC 3986: everything but unreserved characters is encoded.
    static func percentEncoded(_ text: String) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        return text.utf8.flatMap { byte -> [UInt8] in
            switch byte {
            case 48...57, 65...90, 97...122, 0x2d, 0x2e, 0x5f, 0x7e: [byte]
            default: [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
    }
}
