public enum EventReading: LaneReading {
    public typealias Memo = Int64
    public static let mark = "e1"
}
