/// Room held by a value for as long as a copy of it exists.
///
/// All are equal, so that values which hold room compare as they would without it.
public final class MemoryReservation: Sendable, Hashable {
    private let release: @Sendable () -> Void

    /// - Parameter release: gives the room back; called once.
    public init(release: @escaping @Sendable () -> Void) {
        self.release = release
    }

    deinit { release() }

    public static func == (_: MemoryReservation, _: MemoryReservation) -> Bool { true }
    public func hash(into hasher: inout Hasher) {}
}
