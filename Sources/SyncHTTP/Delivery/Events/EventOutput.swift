import NIOCore

/// What one listener is written. Its bytes count against the budget until the connection takes more; a client that does
/// not read is hung up on by the connection's own deadline.
final class EventOutput {
    /// There is no room for what the client has not read.
    struct IsSlow: Error {}

    private var output: StreamOutput
    private let budget: ByteBudget
    private let channel: any Channel
    private var held = 0

    init(_ output: StreamOutput, budget: ByteBudget, channel: any Channel) {
        self.output = output
        self.budget = budget
        self.channel = channel
    }

    deinit {
        budget.giveBack(held)
    }

    /// Writes, once the connection takes more.
    ///
    /// - Throws: ``IsSlow``, or what says that the client is gone.
    func write(_ bytes: [UInt8]) async throws {
        guard budget.take(bytes.count) else { throw IsSlow() }
        held += bytes.count
        try await output.write(bytes)
        // what was written before has left by now, and this has too unless the connection is full
        let left = channel.isWritable ? held : held - bytes.count
        budget.giveBack(left)
        held -= left
    }
}
