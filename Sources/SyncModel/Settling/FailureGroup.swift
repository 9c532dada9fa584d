public import FoundationEssentials

/// A group of an organization's mutations that wait for a person for the same reason.
public struct FailureGroup: Sendable {
    /// The properties that all mutations of the group share. Lists of groups are ordered by these properties, in this
    /// sequence.
    public struct Key: Sendable, Hashable {
        @Exact public var entityType: String
        @Exact public var errorCode: String
        /// The HTTP status of the response; 0 if there was no response.
        public var responseStatus: Int16

        public init(entityType: String, errorCode: String, responseStatus: Int16) {
            self.entityType = entityType
            self.errorCode = errorCode
            self.responseStatus = responseStatus
        }

        /// The status of the mutations, which is `conflict` if this is their error code, otherwise `failed`.
        public var status: MutationStatus { errorCode == ProblemCode.conflict.rawValue ? .conflict : .failed }
    }

    public let organization: UUID
    public let organizationName: String
    public let key: Key
    public let count: BoundedCount
    /// When the first and the last mutation of the group failed.
    public let firstAt: Timestamp
    public let lastAt: Timestamp
    /// The user of the mutation that failed last.
    public let user: UUID
    public let mutation: UUID
    /// The problem of the mutation that failed last, as a sentence; nil if the problem cannot be decrypted.
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
