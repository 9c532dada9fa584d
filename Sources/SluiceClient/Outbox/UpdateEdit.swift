import Foundation

/// What an update changes, as a merge patch.
struct UpdateEdit {
    /// Nil where nothing is changed.
    let patch: JSON?
    /// Whether somebody else has changed the same members since the person read them.
    let isOverlapping: Bool

    /// - Parameters:
    ///   - shown: the document that is shown before the edit.
    ///   - original: what the person started from; nil for what is shown.
    ///   - edited: what the person made of it.
    init(_ entity: EntitySync, shown: JSON, original: JSON?, edited: JSON) {
        let shown = entity.mapped(shown)
        let start = original.map { Self.keepingDigits(entity, of: shown, in: $0) } ?? shown
        let patch = start.patch(to: Self.keepingDigits(entity, of: start, in: edited))
        self.patch = patch
        let theirs = start.patch(to: shown)?.object ?? [:]
        let ours = patch?.object ?? [:]
        isOverlapping = ours.contains { member in theirs[member.key].map { $0 != member.value } ?? false }
    }

    /// A number of a decimal column that is the same to another digit is the same: `129.90` was read as 129.9.
    private static func keepingDigits(_ entity: EntitySync, of before: JSON, in after: JSON) -> JSON {
        var after = after
        for column in entity.columns where column.kind == .decimal {
            guard case .number(let old)? = before[column.member], case .number(let new)? = after[column.member],
                let (left, right) = Optional((Decimal(string: old.text), Decimal(string: new.text))), left != nil,
                left == right
            else { continue }
            after[column.member] = .number(old)
        }
        return after
    }
}
