public import Foundation

/// The epoch in cursors of a user's lane: the feed's, mixed with the lane's key.
///
/// A user who was joined into another has a lane in which other positions refer to other changes, so a cursor from
/// before has another epoch.
public enum LaneEpoch {
    /// Mixes a user into an epoch, or out of it again.
    public static func mixed(_ epoch: Int64, _ user: UUID) -> Int64 {
        let bytes = withUnsafeBytes(of: user.uuid) { Array($0) }
        let halves = [bytes[..<8], bytes[8...]].map { $0.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        // cursors have no sign
        return epoch ^ Int64((halves[0] ^ halves[1]) & UInt64(Int64.max))
    }
}
