import Foundation
import GRDB

/// The changes in an update, as a merge patch.
struct UpdateEdit {
    /// The patch; nil if nothing is changed.
    let patch: JSON?
    /// Whether another writer has changed the same members since the user read the row.
    let isOverlapping: Bool

    /// - Parameters:
    ///   - shown: the document that the app's row shows before the edit.
    ///   - original: the document that the person started to edit; nil if it is `shown`.
    ///   - edited: the document after the person's edit.
    ///   - standard: returns the value that a column gets if the document has no such member and NULL is not allowed.
    init(
        _ entity: EntitySync,
        _ map: EntityMap,
        shown: JSON,
        original: JSON?,
        edited: JSON,
        standard: (SyncedColumn) throws -> DatabaseValue?
    ) rethrows {
        let shown = entity.mapped(shown)
        let start = try original.map { try Self.untouched(entity, map, of: shown, in: $0, standard) } ?? shown
        let patch = start.patch(to: try Self.untouched(entity, map, of: start, in: edited, standard))
        self.patch = patch
        let theirs = start.patch(to: shown)?.object ?? [:]
        let ours = patch?.object ?? [:]
        isOverlapping = ours.contains { member in theirs[member.key].map { $0 != member.value } ?? false }
    }

    /// Returns the edited document, in which each member with an unchanged column keeps its previous value.
    ///
    /// The previous value and the column's value may differ without an edit. For example, a time with microseconds was
    /// read with milliseconds, `25` was read as 25.0, or a missing member was read as the column's default.
    private static func untouched(
        _ entity: EntitySync,
        _ map: EntityMap,
        of before: JSON,
        in after: JSON,
        _ standard: (SyncedColumn) throws -> DatabaseValue?
    ) rethrows -> JSON {
        var after = after
        for column in entity.columns {
            guard let new = after[column.member] else { continue }
            if let old = before[column.member] {
                if column.isSame(old, new, map) { after[column.member] = old }
            } else if let standard = try standard(column), standard == column.databaseValue(of: new, map) {
                after[column.member] = nil
            }
        }
        return after
    }
}

extension SyncedColumn {
    /// Returns whether two members have the same value in this column, in any notation.
    fileprivate func isSame(_ left: JSON, _ right: JSON, _ map: EntityMap) -> Bool {
        switch kind {
        case .text, .json: return left == right
        case .decimal: return isSameNumber(left, right)
        default:
            let value = databaseValue(of: left, map)
            return value != nil && value == databaseValue(of: right, map)
        }
    }

    /// Returns whether two numbers have the same value, even in different notations such as `129.90` and `129.9`.
    ///
    /// False for numbers of more than 38 characters, because `Decimal` holds 38 digits.
    private func isSameNumber(_ left: JSON, _ right: JSON) -> Bool {
        guard case .number(let left) = left, case .number(let right) = right,
            max(left.text.utf8.count, right.text.utf8.count) <= 38, let value = Decimal(string: left.text)
        else { return false }
        return value == Decimal(string: right.text)
    }
}
