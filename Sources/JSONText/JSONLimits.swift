/// Bounds on what is parsed. They bound the memory too: a tree takes its text plus 16 bytes a node.
package struct JSONLimits: Sendable, Equatable {
    /// The longest text, in bytes. At most 1 GiB, whatever is asked.
    package var maximumBytes: Int
    /// How deep arrays and objects may nest: `[]` is 1. At most 1,024, whatever is asked.
    package var maximumDepth: Int
    /// How many values and member names there may be, together.
    package var maximumNodes: Int

    /// The defaults suit a request's body.
    package init(maximumBytes: Int = 4_194_304, maximumDepth: Int = 512, maximumNodes: Int = 1_000_000) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = maximumDepth
        self.maximumNodes = maximumNodes
    }

    /// The widest bounds there are; for texts that were checked when they came in.
    package static let widest = JSONLimits(
        maximumBytes: 1_073_741_824,
        maximumDepth: 1_024,
        maximumNodes: Int(UInt32.max)
    )
}
