import NIOCore

/// The memory into which a connection's bytes are read: as much as its reads have needed lately, up to 8 KiB, and anew for
/// each, so that a connection keeps none but its first between its requests. With thousands of them that is what counts.
struct ReadBuffers: RecvByteBufferAllocator {
    /// At first as much as a small request takes: one in several reads costs a timer and the way through a task.
    private var sizes = AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 2_048, maximum: 8_192)

    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer { sizes.buffer(allocator: allocator) }

    /// - Returns: true, so that the channel does not use the last buffer again.
    mutating func record(actualReadBytes: Int) -> Bool {
        _ = sizes.record(actualReadBytes: actualReadBytes)
        return true
    }

    /// Unsaid: the channel would keep a buffer of that size (`NIOPooledRecvBufferAllocator`).
    func nextBufferSize() -> Int? { nil }
}
