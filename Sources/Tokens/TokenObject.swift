import JSONText

/// A token's header or payload: a JSON object that can be read in one way only.
enum TokenObject {
    /// - Throws: `repeatedMember` where a name comes twice, for one reader takes the first and another the last of
    ///   them (RFC 7519, section 4); `malformed`.
    static func parsing(_ json: [UInt8]) throws(TokenError) -> JSONValue {
        guard let tree = try? JSONTree(parsing: json), tree.root.kind == .object else { throw .malformed }
        let defects = tree.defects
        if defects.contains(where: { $0.kind == .duplicateMember }) { throw .repeatedMember }
        guard defects.isEmpty else { throw .malformed }
        return tree.root
    }
}
