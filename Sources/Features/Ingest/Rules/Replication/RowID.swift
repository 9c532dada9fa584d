import SyncModel

/// The id of a row that several columns identify: their values as text, in the order of the settings, joined by `:`.
///
/// A `~` in a value is written `~0`, and a `:` is written `~1`, so that different rows have different ids.
enum RowID {
    /// The most columns that an id may have.
    static let columnLimit = 8

    /// Returns the joined id; nil if one of the values is missing.
    static func text(_ values: [ColumnValue]) -> [UInt8]? {
        var joined: [UInt8] = []
        for (index, value) in values.enumerated() {
            guard case .text(let bytes) = value else { return nil }
            if index > 0 { joined.append(UInt8(ascii: ":")) }
            for byte in bytes {
                switch byte {
                case UInt8(ascii: "~"): joined += [UInt8(ascii: "~"), UInt8(ascii: "0")]
                case UInt8(ascii: ":"): joined += [UInt8(ascii: "~"), UInt8(ascii: "1")]
                default: joined.append(byte)
                }
            }
        }
        return joined
    }
}
