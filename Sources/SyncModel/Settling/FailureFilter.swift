public import Foundation
import JSONText

/// Selects among the mutations that wait for a person.
public struct FailureFilter: Sendable, Hashable {
    /// `failed`, `conflict`; empty for both.
    public var statuses: [MutationStatus] = []
    @Exact public var entityType: String?
    /// The code of the problem.
    @Exact public var errorCode: String?
    /// The HTTP status of the response because of which it waits; 0: no response.
    public var responseStatus: Int16?
    public var user: UUID?

    public init() {}

    /// A hash of the filter, for cursors.
    public var standIn: UInt64 {
        FeedCursor.filter([
            "s" + statuses.map(\.rawValue).sorted().joined(separator: "+"), "t" + (entityType ?? ""),
            "c" + (errorCode ?? ""), "r" + (responseStatus.map(String.init) ?? ""), "u" + (user?.lowercased ?? ""),
        ])
    }

    /// The group that it names, where it names a whole one.
    public var group: FailureGroup.Key? {
        guard let entityType, let errorCode, let responseStatus else { return nil }
        return FailureGroup.Key(entityType: entityType, errorCode: errorCode, responseStatus: responseStatus)
    }
}
