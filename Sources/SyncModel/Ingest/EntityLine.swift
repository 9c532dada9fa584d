import Crypto
import Foundation
import JSONText

/// A line of a file of entities, as exports write it and imports read it.
///
/// It contains an entity as it is, or an event that describes a change of an entity.
public enum EntityLine {
    /// The longest line, in bytes: more than any document takes that is stored.
    public static let maximumBytes = 2 * BuiltInStore.maximumDocumentBytes

    /// Bounds of documents.
    ///
    /// They are wide enough that any stored document can be exported and imported, also one grown by patches or from an
    /// upstream's answer.
    public static let limits = {
        var limits = IntakeLimits()
        limits.bodyBytes = maximumBytes
        limits.payloadBytes = BuiltInStore.maximumDocumentBytes
        limits.payloadDepth = 512
        return limits
    }()

    /// Reads a line, without its end.
    ///
    /// An event without an `event_id` gets one that is computed from its content, so that the same line again is the
    /// same event. Pointers of problems begin at the line's object.
    public static func decode(_ line: [UInt8]) -> IngestRequest.Entry {
        let tree: JSONTree
        do throws(JSONParseError) {
            // one level more than documents: the line's own object
            tree = try JSONTree(parsing: line, limits: JSONLimits(maximumBytes: maximumBytes, maximumDepth: 513))
        } catch {
            return IngestRequest.Entry(
                eventID: nil,
                event: .failure(Problem(jsonError: error, limit: maximumBytes))
            )
        }
        return IngestDecoder.decode(
            tree.root,
            place: "",
            form: .line,
            limits: limits,
            hasDefects: tree.root.hasDefects
        )
    }

    /// The id of a line's content: a hash of every part that counts.
    ///
    /// It depends neither on the order of the members nor on white space.
    static func eventID(
        _ key: EntityKey,
        isInteger: Bool,
        _ mark: SourceMark,
        _ operation: IngestOperation,
        _ document: [UInt8]?,
        _ owner: UUID?
    ) -> String {
        let parts = [
            key.type, isInteger ? "i" : "s", key.id, mark.version.map { String($0) } ?? "-",
            mark.occurredAt.map { String($0.microseconds) + mark.fractionSuffix } ?? "-", operation.rawValue,
            owner?.lowercased ?? "-",
        ]
        // none of the parts has a character U+0000
        var hash = SHA256()
        hash.update(data: Array(parts.joined(separator: "\u{0}").utf8))
        hash.update(data: [0])
        if let document { hash.update(data: document) }
        let digits = Array("0123456789abcdef".utf8)
        let text = hash.finalize().prefix(16).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return "line-" + String(decoding: text, as: UTF8.self)
    }
}
