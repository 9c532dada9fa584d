import Glibc
import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle

/// Shows the cost of the server library alone. It reads each body to its end, and always sends the same answer.
@main
enum EmptyEndpoint {
    private static let usage = """
        Usage: EmptyEndpoint PORT FILE

        Answers every request on 127.0.0.1 with status 200 and what the file holds, once it has read the request's body.
        """

    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count == 2, let port = arguments.first.flatMap({ Int($0) }), let file = arguments.last else {
            print(usage)
            exit(arguments.contains("--help") ? 0 : 2)
        }
        try await server(port: port, answering: read(file)).run()
    }

    private static func server(port: Int, answering answer: ByteBuffer) throws -> any Service {
        var logger = Logger(label: "EmptyEndpoint")
        logger.logLevel = .warning
        // The gateway's own files, linked into this folder: requests are handled on the thread of their event loop.
        let builder = HTTPServerBuilder { EventLoopBound(base: HTTP1Channel(responder: $0)) { _ in } }
        return try builder.buildServer(
            configuration: ServerConfiguration(address: .hostname("127.0.0.1", port: port), backlog: 1_024),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: logger,
            responder: { request, writer, _ in
                var bytes: [UInt8] = []
                for try await part in request.body { bytes.append(contentsOf: part.readableBytesView) }
                let response = Response(
                    status: .ok,
                    headers: [.contentType: "application/json"],
                    body: ResponseBody(byteBuffer: answer)
                )
                try await writer.write(response: response.head, body: response.body)
            }
        )
    }

    /// A file of less than a mebibyte.
    private static func read(_ path: String) -> ByteBuffer {
        guard let file = fopen(path, "r") else {
            perror(path)
            exit(2)
        }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        guard count < bytes.count, ferror(file) == 0 else {
            print("\(path) is too long, or cannot be read")
            exit(2)
        }
        return ByteBuffer(bytes: bytes[..<count])
    }
}
