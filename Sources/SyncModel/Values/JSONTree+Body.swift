public import JSONText

extension JSONTree {
    /// Reads a small body, which must be an object. The caller judges its defects.
    ///
    /// - Parameter limit: the most bytes of a body.
    /// - Throws: `invalid_json`, `payload_too_large`, or `invalid_request` for another kind of value.
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
