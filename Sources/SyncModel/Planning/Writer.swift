public import Foundation

/// A user on a device.
public struct Writer: Sendable, Hashable {
    public let user: UUID
    public let device: UUID

    public init(user: UUID, device: UUID) {
        self.user = user
        self.device = device
    }

    /// The writer of a state that a user adopted from the upstream.
    ///
    /// It has no device, so that no device's edits count as made on a state that it has not seen.
    static func adopting(_ user: UUID) -> Writer { Writer(user: user, device: noDevice) }

    /// Whether one of a user's devices wrote, so that the state was not adopted.
    func isOwn(of user: UUID) -> Bool { self.user == user && device != Self.noDevice }

    static let noDevice = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0))
}

extension Writer {
    /// The writer of edits made elsewhere, and the owner of entities without an owner.
    ///
    /// No user has this id, and no device.
    public static let elsewhere = Writer(user: elsewhereID, device: elsewhereID)

    /// The id that replaces the id of an erased user.
    public static let erased = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    /// Whether an id is reserved: not a user's, and not assignable to one.
    public static func isReserved(_ id: UUID) -> Bool { id == erased || id == elsewhereID || id == noDevice }

    private static let elsewhereID = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 1))
}
