package import FoundationEssentials
package import SyncModel

/// An organization of `sluice dev` with one user. All ids are fixed, so that a command has the same effect if it is
/// pasted again.
package struct DemoTenant: Sendable {
    package let name: String
    package let organization: UUID
    package let user: UUID
    /// The base URL of the organization's upstream; nil if its documents are in the built-in store.
    package var upstream: String?
    /// The token with which the upstream reports its changes.
    package var serviceToken: ServiceToken?

    package init(name: String, organization: UUID, user: UUID) {
        self.name = name
        self.organization = organization
        self.user = user
    }

    /// The organization whose documents are in the built-in store.
    package static let builtIn = DemoTenant(name: "Demo", organization: id(0xde_30, 0x01), user: id(0xde_30, 0x02))

    /// The organization whose documents are in the demo's REST API.
    package static let forwarded = DemoTenant(
        name: "Demo upstream",
        organization: id(0xde_40, 0x01),
        user: id(0xde_40, 0x02)
    )

    /// Returns a readable id, which contains the given kind and number.
    package static func id(_ kind: UInt16, _ number: UInt8, version: UInt8 = 7) -> UUID {
        let (high, low) = (UInt8(kind >> 8), UInt8(kind & 0xff))
        return UUID(uuid: (1, 0x9b, 0xb0, 0, high, low, version << 4, 0, 0x80, 0, 0, 0, 0, 0, 0, number))
    }
}
