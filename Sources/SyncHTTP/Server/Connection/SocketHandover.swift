import Glibc
import HTTPTypes
import NIOCore
import NIOPosix
import SyncModel

/// A connection's socket during its transfer to code that no longer uses HTTP.
///
/// An HTTP connection uses about 30 KB for its parser, its buffers and its task. A task keeps the memory of its deepest
/// call. A listener that is idle for hours should not use this memory.
package struct SocketHandover: Sendable {
    /// The code that takes over the socket. It writes the response's head first.
    package typealias Successor = @Sendable (SocketHandover) async throws -> Void

    /// A separate descriptor for the same connection. The new owner closes it.
    let descriptor: NIOBSDSocket.Handle
    let eventLoop: any EventLoop
    /// The response's head, which is not written yet. The body ends with the connection (RFC 9112, 6.3).
    let head: [UInt8]

    /// Takes over the socket of a connection that has written everything, and closes the connection's other parts.
    ///
    /// - Throws: `IOError`, or `overloaded` if an earlier response is still being sent.
    init(of channel: any Channel, head: HTTPResponse) async throws {
        eventLoop = channel.eventLoop
        self.head = Self.text(head)
        descriptor = try await channel.eventLoop.submit {
            guard try channel.syncOptions?.getOption(.bufferedWritableBytes) ?? 0 == 0 else {
                throw Problem(.overloaded, "An earlier response is still being sent.")
            }
            let copy = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
                of: NIOBSDSocket.Handle.self
            ) { fcntl($0, F_DUPFD_CLOEXEC, 0) }
            guard let copy, copy >= 0 else { throw IOError(errnoCode: errno, reason: "the socket can't be copied") }
            // closes the channel immediately; if the channel's sending half were closed first, the copy's sending half
            // would be closed, too
            channel.close(promise: nil)
            return copy
        }.get()
    }

    /// Writes the head, and ends the connection.
    func close() async throws {
        let channel = try await ClientBootstrap(group: eventLoop).withConnectedSocket(descriptor).get()
        do { try await channel.writeAndFlush(ByteBuffer(bytes: head)) } catch {}
        try await channel.close()
    }

    private static func text(_ head: HTTPResponse) -> [UInt8] {
        var text = "HTTP/1.1 \(head.status.code) \(head.status.reasonPhrase)\r\n"
        for field in head.headerFields where field.name != .contentLength {
            text += "\(field.name.rawName): \(field.value)\r\n"
        }
        return Array((text + "Connection: close\r\n\r\n").utf8)
    }
}
