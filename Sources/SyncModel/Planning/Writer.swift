public import Foundation

/// A user on a device.
public struct Writer: Sendable, Hashable {
    public let user: UUID
    public let device: UUID

    public init(user: UUID, device: UUID) {
        self.user = user
        self.device = device
    }

    /// The writer of a state that a user adopted from the upstream: no device, so that no device's edits count as made
    /// on a state that it has not seen.
    static func adopting(_ user: UUID) -> Writer { Writer(user: user, device: noDevice) }

    /// Whether one of a user's devices wrote, so that the state was not adopted.
    func isOwn(of user: UUID) -> Bool { self.user == user && device != Self.noDevice }

    static let noDevice = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0))
}

extension Writer {
    /// The writer of what was made elsewhere, and the owner of what nobody owns: no user has this id, and no device.
    public static let elsewhere = Writer(user: elsewhereID, device: elsewhereID)

    /// Stands where the id of a user stood who was erased.
    public static let erased = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    /// Whether an id stands for something else than a user: nobody comes under it, and nothing is given to it.
    public static func isReserved(_ id: UUID) -> Bool { id == erased || id == elsewhereID || id == noDevice }

    private static let elsewhereID = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 1))
}
