/// What a reader of a lane's changes keeps in its cursor besides its place.
public protocol LaneReading {
    associatedtype Memo: FixedWidthInteger & Sendable

    /// What the text of its cursors begins with.
    static var mark: String { get }
}
