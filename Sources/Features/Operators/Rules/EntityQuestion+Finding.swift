import FoundationEssentials
import JSONText
import SyncModel

extension UserSnapshot.EntityQuestion {
    /// Why the user sees the entity, or does not.
    var finding: Finding {
        let name = "\(key.type) \(key.id)"
        guard let type, let state else {
            return Finding(
                .warning,
                .entityUnknown,
                "No entity \(name) is stored, not even as deleted.",
                do: "Compare its type and server id with the app's data."
            )
        }
        let kind = state.isDeleted ? "the tombstone of \(name)" : name
        switch type.visibility {
        case .organization:
            return Finding(.info, .entityVisible, "The user sees \(kind): its type is visible to all users.")
        case .user:
            if state.owner == user {
                return Finding(.info, .entityVisible, "The user sees \(kind), as the user who created it.")
            }
            return Finding(
                .warning,
                .entityHidden,
                "The user does not see \(name): its type is visible to the creator only, \(state.owner.lowercased)."
            )
        case .channels: return findingByChannels(name, kind, state)
        }
    }

    private func findingByChannels(_ name: String, _ kind: String, _ state: EntityState) -> Finding {
        guard let stored = state.stored?.channels else {
            return Finding(
                .warning,
                .entityUnevaluated,
                "No user sees \(name) yet: the channels of its type were not evaluated for it.",
                do: "Wait for the operation of the kind evaluate, or start one for the entity type \(key.type)."
            )
        }
        var reasons = grants.prefix(Self.listed).map { "\($0.channel) (\($0.role.rawValue), from \($0.source))" }
        if stored.contains(.of(user: user)) { reasons.insert("the user's own channel (write)", at: 0) }
        if !reasons.isEmpty {
            return Finding(.info, .entityVisible, "The user sees \(kind) by \(reasons.joined(separator: ", ")).")
        }
        if stored.isEmpty {
            return Finding(
                .warning,
                .entityHidden,
                "No user sees \(name): its document gives no channel.",
                do: "Check the templates of the type and the members that they name."
            )
        }
        let list = channels.prefix(Self.listed).joined(separator: ", ")
        return Finding(
            .warning,
            .entityHidden,
            "The user does not see \(name): it is in \(list.isEmpty ? "\(stored.count) channels" : list), and the user "
                + "holds none of them.",
            do: "If the user should see it, grant one of its channels."
        )
    }

    /// The maximum number of channels in a sentence.
    private static let listed = 3
}
