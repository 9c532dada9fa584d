public import Foundation

/// Who writes: a user on a device.
public struct Writer: Sendable, Hashable {
    /// The user.
    public let user: UUID
    /// The device.
    public let device: UUID

    /// Creates the value.
    public init(user: UUID, device: UUID) {
        self.user = user
        self.device = device
    }

    /// Who stands as the writer of a state that a user took over from the upstream: no device, so that nobody's edits
    /// count as made on it who has not seen it.
    static func adopting(_ user: UUID) -> Writer { Writer(user: user, device: noDevice) }

    /// Whether it is one of a user's devices that wrote, and not a state that was taken over.
    func isOwn(of user: UUID) -> Bool { self.user == user && device != Self.noDevice }

    private static let noDevice = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0))
}
