import NIOCore

/// Allocates the memory into which a connection's bytes are read.
///
/// Its size is what the last reads have needed, up to 8 KiB. Each read gets a new buffer, so that a connection keeps
/// only its first one between its requests. With thousands of connections that is the decisive amount.
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
