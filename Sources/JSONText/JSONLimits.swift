/// Bounds on a parsed text. They bound the memory too: a tree takes its text plus 16 bytes a node.
public struct JSONLimits: Sendable, Equatable {
    /// The longest text, in bytes. Values above 1 GiB count as that.
    public var maximumBytes: Int
    /// How deep arrays and objects may nest: `[]` is 1. Values above 1,024 count as that.
    public var maximumDepth: Int
    /// Values and member names together.
    public var maximumNodes: Int

    /// The defaults suit a request's body.
    public init(maximumBytes: Int = 4_194_304, maximumDepth: Int = 512, maximumNodes: Int = 1_000_000) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = maximumDepth
        self.maximumNodes = maximumNodes
    }

    /// The widest bounds; for texts that were checked when they came in.
    public static let widest = JSONLimits(
        maximumBytes: 1_073_741_824,
        maximumDepth: 1_024,
        maximumNodes: Int(UInt32.max)
    )
}
