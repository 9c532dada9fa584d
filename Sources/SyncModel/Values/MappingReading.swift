public enum MappingReading: LaneReading {
    public typealias Memo = UInt64
    public static let mark = "i1"
}
