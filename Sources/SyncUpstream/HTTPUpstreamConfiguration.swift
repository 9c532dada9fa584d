package import AsyncHTTPClient
package import NIOCore
import NIOHTTP1
import NIOPosix
import SyncModel

/// Settings of an ``HTTPUpstream`` for all organizations.
package struct HTTPUpstreamConfiguration: Sendable {
    /// The program's version for `User-Agent`.
    package var version = "unknown"
    /// The maximum time to connect, including TLS, or to wait for a free connection. If less time remains for the
    /// request, the remaining time is the maximum.
    package var connectTimeout: Duration = .seconds(5)
    /// The time for which a connection without a request is kept.
    ///
    /// Many servers close an idle connection after a minute. If a request uses a connection at the moment when the
    /// server closes it, the request fails and counts as an attempt.
    package var idleTimeout: Duration = .seconds(30)
    /// The maximum number of concurrent connections to a host. Further requests wait for a free connection.
    ///
    /// Lanes need far fewer connections, because an organization's `maximumConcurrency` limits its requests. But
    /// several organizations may share a host.
    package var connectionsPerHost = 1_000
    /// The maximum size of a response body that is read, in bytes. The answer to a batch may be larger.
    package var maximumBodyBytes = UpstreamResponse.maximumBodyBytes
    /// The number of bytes by which each part of a batch raises the maximum size of the answer.
    static let bytesPerPart = 65_536
    /// The maximum size of all response bodies in memory together, in bytes, for all organizations.
    package var answerBytes = 67_108_864
    /// The maximum number of event loops, at least 1. Organizations are distributed over the event loops.
    package var eventLoops = 4

    package init() {}

    /// The maximum size of the answer to a request, in bytes: ``maximumBodyBytes``, and more for a batch.
    ///
    /// Each part of a batch raises the size, but at most to an eighth of the memory of all answers.
    ///
    /// - Parameter parts: the number of parts of a batch; 1 for other requests.
    func maximumBodyBytes(parts: Int) -> Int {
        guard parts > 1 else { return maximumBodyBytes }
        return min(maximumBodyBytes + parts * Self.bytesPerPart, max(maximumBodyBytes, answerBytes / 8))
    }

    package var client: HTTPClient.Configuration {
        var client = HTTPClient.Configuration(redirectConfiguration: .disallow)
        client.timeout.connect = TimeAmount(connectTimeout)
        client.connectionPool.idleTimeout = TimeAmount(idleTimeout)
        client.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connectionsPerHost
        // a refused connection is returned as an answer, and the dispatcher decides when to retry
        client.connectionPool.retryConnectionEstablishment = false
        client.httpVersion = .http1Only
        // the gateway starts the spans of its requests itself, because the client's spans would contain paths
        client.tracing.tracer = nil
        // this is the only way to get a connection's channel
        client.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                try pipeline.addHandlers([StatusCheck(), UnsolicitedResponseGuard()], position: .after(decoder))
                try pipeline.addHandler(SingleFlushHandler(), position: .first)
                // with a buffer of this size, one call reads all data that an upstream sent together
                try channel.syncOptions?.setOption(
                    .recvAllocator,
                    value: AdaptiveRecvByteBufferAllocator(minimum: 16_384, initial: 16_384, maximum: 65_536)
                )
            }
        }
        return client
    }
}

extension HTTPClient {
    /// Creates a client that uses only one event loop.
    ///
    /// If a request and its connection use different event loops, the process can crash (AsyncHTTPClient 1.37). The
    /// crash happens if a response arrives before the whole request is sent, on a connection that is closed
    /// immediately. The client then returns the connection to a pool that has already removed it.
    package convenience init(
        _ configuration: Configuration,
        on loop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next()
    ) {
        self.init(eventLoopGroupProvider: .shared(loop), configuration: configuration)
    }
}
