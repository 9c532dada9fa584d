public import Foundation

extension PushPlanner {
    public struct Context: Sendable {
        public var organization: Organization
        /// The registered entity types, by name.
        public var types: [ByteExactString: EntityType]
        /// The owner of the lane, from the verified token.
        public var user: UUID
        /// All or nothing (`Prefer: handling=strict`).
        public var isStrict: Bool
        /// The time of the transaction.
        public var now: Timestamp
        /// Makes a server id; UUIDv7 in production.
        public var makeID: @Sendable () -> UUID
        /// Devices that a user may have.
        public var deviceLimit = 1_000
        /// Whether others are committed together with the push: then it must be light.
        public var isBatched = false
        /// Bytes of documents that the push may read.
        public var documentBytes = WorkBounds.pushDocuments
        /// Bytes of documents that it may merge, each as often as it is patched.
        public var mergedBytes = Int.max
        /// Whether it reads the documents of forwarded entities, too.
        public var readsForwarded = false

        public init(
            organization: Organization,
            types: [ByteExactString: EntityType],
            user: UUID,
            isStrict: Bool,
            now: Timestamp,
            makeID: @escaping @Sendable () -> UUID
        ) {
            self.organization = organization
            self.types = types
            self.user = user
            self.isStrict = isStrict
            self.now = now
            self.makeID = makeID
        }

        /// The type of a mutation; an unknown one is made at its first use.
        ///
        /// It is not made if the organization requires declared types.
        func type(_ name: String) -> EntityType? {
            if let type = types[name] { return type }
            return organization.settings.entityTypes == .open
                ? EntityType(firstUseOf: name, hasUpstream: organization.upstream != nil) : nil
        }
    }
}
