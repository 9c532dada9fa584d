import JSONText
package import SyncModel

/// The result of mapping a body.
package struct MappedEvents: Sendable {
    /// The origin of an event.
    package struct Origin: Sendable, Hashable {
        /// Of its item in the body, as a JSON Pointer.
        @Exact package private(set) var place: String
        /// Which rule it was made by, from 0.
        package let rule: Int
    }

    /// One for each event, in the order of the items; each is valid or holds its errors, whose pointers lead into the
    /// body.
    package private(set) var entries: [IngestRequest.Entry] = []
    /// Of each entry.
    package private(set) var origins: [Origin] = []
    private var rules: [MappingRule] = []
    /// Items that no rule is for.
    package internal(set) var ignored = 0

    init() {}

    mutating func add(_ entry: IngestRequest.Entry, _ origin: Origin, _ rule: MappingRule) {
        entries.append(entry)
        origins.append(origin)
        rules.append(rule)
    }

    /// Returns a verdict's problem with its pointers into a batch of these entries replaced by pointers into the body.
    ///
    /// - Parameter index: of the entry in these events and in the batch.
    package func placed(_ problem: Problem, of index: Int) -> Problem {
        guard entries.indices.contains(index) else { return problem }
        var problem = problem
        let prefix = "/events/\(index)"
        problem.errors = problem.errors.map { error in
            guard error.pointer.hasPrefix(prefix) else { return error }
            var error = error
            error.pointer = rules[index].place(
                ofMember: String(error.pointer.dropFirst(prefix.count)),
                in: origins[index].place
            )
            return error
        }
        return problem
    }
}

/// The ids of events whose rule does not define one.
package enum MappedID: Sendable, Hashable {
    /// The id of their message, with their place in it if it has several.
    case message(ByteExactString)
    /// Derived from the content: entity, operation, and the version or, without one, time and document.
    case content

    func ofItem(_ index: Int) -> MappedID {
        if case .message(let id) = self { .message(ByteExactString("\(id)#\(index)")) } else { self }
    }
}

extension MappingRule {
    func pointer(of member: some StringProtocol) -> MappedPointer? {
        switch member {
        case "event_id": eventID
        case "id": id
        case "version": version
        case "occurred_at": occurredAt
        case "document": document
        case "owner": owner
        case "causing_key": causingKey
        case "operation": if case .at(let pointer, _, _) = operation { pointer } else { nil }
        default: nil
        }
    }

    /// Returns the place in the body that a pointer into an event refers to; the item if the rule itself sets the
    /// member.
    func place(ofMember pointer: String, in place: String) -> String {
        let steps = pointer.dropFirst().split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let member = steps.first, let found = self.pointer(of: member) else { return place }
        return found.place(in: place) + (steps.count > 1 ? "/" + steps[1] : "")
    }
}
