public import Foundation

extension PushPlanner {
    /// What a plan needs to know besides the push.
    public struct Context: Sendable {
        /// The tenant and its settings.
        public var organization: Organization
        /// The entity types that are registered, by name.
        public var types: [String: EntityType]
        /// The user whose lane it is, from the verified token.
        public var user: UUID
        /// All or nothing (`Prefer: handling=strict`).
        public var isStrict: Bool
        /// The moment of the transaction.
        public var now: Timestamp
        /// Makes a server id; UUIDv7 in production.
        public var makeID: @Sendable () -> UUID
        /// Devices that a user may have.
        public var deviceLimit = 1_000

        /// Creates the value.
        public init(
            organization: Organization,
            types: [String: EntityType],
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

        /// The type of a mutation; an unknown one is made at its first use, unless the organization wants it declared.
        func type(_ name: String) -> EntityType? {
            if let type = types[name] { return type }
            return organization.settings.entityTypes == .open
                ? EntityType(firstUseOf: name, hasUpstream: organization.upstream != nil) : nil
        }
    }
}
