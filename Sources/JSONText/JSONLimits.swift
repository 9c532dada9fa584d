/// Bounds on what is parsed. They bound the memory too: a tree takes its text plus 16 bytes a node.
public struct JSONLimits: Sendable, Equatable {
    /// The longest text, in bytes. At most 1 GiB, whatever is asked.
    public var maximumBytes: Int
    /// How deep arrays and objects may nest: `[]` is 1. At most 1,024, whatever is asked.
    public var maximumDepth: Int
    /// How many values and member names there may be, together.
    public var maximumNodes: Int

    /// The defaults suit a request's body.
    public init(maximumBytes: Int = 4_194_304, maximumDepth: Int = 512, maximumNodes: Int = 1_000_000) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = maximumDepth
        self.maximumNodes = maximumNodes
    }

    /// The widest bounds there are; for texts that were checked when they came in.
    public static let widest = JSONLimits(
        maximumBytes: 1_073_741_824,
        maximumDepth: 1_024,
        maximumNodes: Int(UInt32.max)
    )
}
