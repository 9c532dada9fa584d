package import JSONText

/// The place of a claim: the name of a payload's member, or a path.
///
/// Names are the older form of the settings.
package struct ClaimPlace: Sendable {
    /// A name, with any characters, is the query of one step.
    package let query: SingularQuery
    /// As the operator wrote it.
    package let description: String

    /// The member of the payload with that name.
    package init(named name: String) { self.init(SingularQuery(member: name), name) }

    private init(_ query: SingularQuery, _ description: String) {
        self.query = query
        self.description = description
    }

    /// Reads a path (``SingularQuery``), which begins with `$.` or `$[`, or a name.
    ///
    /// Any other text is taken for a name.
    package init(parsing text: String) throws(SingularQueryError) {
        guard !text.isEmpty else { throw SingularQueryError(place: 0, reason: "is empty") }
        guard text == "$" || text.hasPrefix("$.") || text.hasPrefix("$[") else {
            self.init(named: text)
            return
        }
        let query = try SingularQuery(text)
        if query.steps.isEmpty { throw SingularQueryError(place: 0, reason: "leads to the whole payload") }
        self.init(query, text)
    }

    /// The name, where it is a member of the payload itself.
    package var plainName: String? {
        if case .member(let name) = query.steps[0], query.steps.count == 1 { return name }
        return nil
    }
}

extension ClaimPlace: Hashable, CustomStringConvertible {
    /// Two places are one if they lead to the same value, however they are written.
    package static func == (left: ClaimPlace, right: ClaimPlace) -> Bool { left.query == right.query }

    package func hash(into hasher: inout Hasher) { hasher.combine(query) }
}
