/// JSON merge patches (RFC 7396).
extension JSON {
    /// The value with a merge patch applied to it.
    package func merged(with patch: JSON) -> JSON {
        guard case .object(let changes) = patch else { return patch }
        var members = object ?? [:]
        for (name, change) in changes {
            members[name] = change.isNull ? nil : (members[name] ?? .null).merged(with: change)
        }
        return .object(members)
    }

    /// Returns the merge patch that turns this value into another value. Nil if the two values differ at most in
    /// members that are `null`, because a merge patch treats such members as absent.
    func patch(to other: JSON) -> JSON? {
        guard case .object(let old) = self, case .object(let new) = other else {
            return withoutNulls == other.withoutNulls ? nil : other.withoutNulls
        }
        var changes: [String: JSON] = [:]
        for name in Set(old.keys).union(new.keys) {
            let (before, after) = (old[name] ?? .null, new[name] ?? .null)
            if after.isNull {
                if !before.isNull { changes[name] = .null }
            } else if case .object = before {
                changes[name] = before.patch(to: after)
            } else if before != after {
                changes[name] = after.withoutNulls
            }
        }
        return changes.isEmpty ? nil : .object(changes)
    }

    /// The value without object members that are `null`. Arrays are not changed, as in a merge patch.
    package var withoutNulls: JSON {
        guard case .object(let members) = self else { return self }
        return .object(members.compactMapValues { $0.isNull ? nil : $0.withoutNulls })
    }
}
