import HummingbirdCore
import NIOCore

/// Where a stream writes its body, piece by piece.
struct StreamOutput {
    private var writer: any ResponseBodyWriter

    init(_ writer: any ResponseBodyWriter) {
        self.writer = writer
    }

    /// Writes a piece, once the connection takes more.
    mutating func write(_ bytes: [UInt8]) async throws {
        try await writer.write(ByteBuffer(bytes: bytes))
    }
}
