public import JSONText

extension JSONTree {
    /// Reads a small body, which must be an object. The caller checks the defects of the object.
    ///
    /// - Parameter limit: the maximum number of bytes of a body.
    /// - Throws: `invalid_json`, `payload_too_large`, or `invalid_request` if the body is not an object.
    public static func object(in body: [UInt8], limit: Int) throws(Problem) -> (tree: JSONTree, members: JSONMembers) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body, limits: JSONLimits(maximumBytes: limit))
        } catch {
            throw Problem(jsonError: error, limit: limit)
        }
        guard let members = tree.root.members else {
            throw Problem(.invalidRequest, pointer: "", rule: Rule.memberType, "the body must be a JSON object")
        }
        return (tree, members)
    }
}

extension JSONWriter {
    /// Writes the member `unreadable`, if stored members cannot be decrypted.
    ///
    /// The member `unreadable` contains the names of these members.
    public mutating func unreadable(_ names: [String]) {
        guard !names.isEmpty else { return }
        name("unreadable")
        beginArray()
        for name in names { string(name) }
        endArray()
    }
}

/// A number of rows, counted only up to a limit.
public struct BoundedCount: Sendable, Hashable {
    /// The default maximum number of rows that are counted.
    public static let limit: Int64 = 10_000

    public let count: Int64
    /// Whether there are more rows than the limit.
    public let isMore: Bool

    public init(count: Int64, isMore: Bool = false) {
        self.count = count
        self.isMore = isMore
    }

    /// - Parameters:
    ///   - found: the number of rows that were found, at most one more than `limit`.
    ///   - examined: the number of rows that were examined, at most one more than `limit`.
    public init(found: Int64, among examined: Int64 = 0, limit: Int64 = limit) {
        self.init(count: min(found, limit), isMore: max(found, examined) > limit)
    }
}
