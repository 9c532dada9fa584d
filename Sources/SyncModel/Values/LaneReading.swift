/// The part of a reader's cursor besides its place in the lane.
public protocol LaneReading {
    associatedtype Memo: FixedWidthInteger & Sendable

    /// The beginning of its cursors' text.
    static var mark: String { get }
}
