package import FoundationEssentials
package import Postgres
package import SyncModel

/// A column with sealed values in rows of users, and the place of its value in a row.
package struct SealedColumn: Sendable {
    package let name: StaticString
    package let isText: Bool
    package let place: @Sendable (_ user: UUID, _ id: UUID) -> SealedPlace

    /// - Parameter isText: whether the column is text rather than JSON.
    package init(
        _ name: StaticString,
        isText: Bool = false,
        place: @escaping @Sendable (_ user: UUID, _ id: UUID) -> SealedPlace
    ) {
        self.name = name
        self.isText = isText
        self.place = place
    }

    package static func mutation(_ name: StaticString, _ column: SealedPlace.Column, isText: Bool = false) -> Self {
        Self(name, isText: isText) { .mutation(column, user: $0, id: $1) }
    }

    /// Returns a column of a table for which ``SealedPlace`` has no case.
    ///
    /// - Parameters:
    ///   - number: the column's unique number, above ``SealedPlace/lastNumber``. The number is part of the stored form.
    ///   - table: the table's name in logs.
    package static func numbered(
        _ name: StaticString,
        _ number: UInt8,
        of table: StaticString,
        isText: Bool = false
    ) -> Self {
        let column = SealedPlace.NumberedColumn(number: number, name: name, table: table)
        return Self(name, isText: isText) { .numbered(column, user: $0, id: $1) }
    }
}

/// A text or JSON column with sealed values that belong to an organization's settings.
package struct SealedSetting: Sendable {
    package let name: StaticString
    package let isText: Bool
    /// Returns the place of the value in a row after the row's key was read.
    package let place: @Sendable (inout RowReader) throws -> SealedPlace

    package init(
        _ name: StaticString,
        isText: Bool = false,
        place: @escaping @Sendable (inout RowReader) throws -> SealedPlace
    ) {
        self.name = name
        self.isText = isText
        self.place = place
    }
}
