public import Foundation

/// Mutations of an organization that wait for a person for the same reason.
public struct FailureGroup: Sendable {
    /// The common properties, in the order of paging through groups.
    public struct Key: Sendable, Hashable {
        @Exact public var entityType: String
        @Exact public var errorCode: String
        /// 0: there was no answer.
        public var responseStatus: Int16

        public init(entityType: String, errorCode: String, responseStatus: Int16) {
            self.entityType = entityType
            self.errorCode = errorCode
            self.responseStatus = responseStatus
        }

        /// Derived from `error_code`, which differs for the two statuses.
        public var status: MutationStatus { errorCode == ProblemCode.conflict.rawValue ? .conflict : .failed }
    }

    public let organization: UUID
    public let organizationName: String
    public let key: Key
    public let count: BoundedCount
    /// When the first and the last of them got stuck.
    public let firstAt: Timestamp
    public let lastAt: Timestamp
    /// The last one.
    public let user: UUID
    public let mutation: UUID
    /// Its problem as a sentence; nil where that cannot be opened.
    public var detail: String?

    public init(
        organization: UUID,
        organizationName: String,
        key: Key,
        count: BoundedCount,
        firstAt: Timestamp,
        lastAt: Timestamp,
        user: UUID,
        mutation: UUID
    ) {
        self.organization = organization
        self.organizationName = organizationName
        self.key = key
        self.count = count
        self.firstAt = firstAt
        self.lastAt = lastAt
        self.user = user
        self.mutation = mutation
    }
}
