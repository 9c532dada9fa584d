package import AsyncHTTPClient
package import NIOCore
import NIOHTTP1
import NIOPosix

/// Settings of an ``HTTPUpstream`` for all organizations.
package struct HTTPUpstreamConfiguration: Sendable {
    /// The program's version, in `User-Agent`.
    package var version = "unknown"
    /// How long connecting may take, TLS included, or waiting for a free connection; less when the request has less
    /// time.
    package var connectTimeout: Duration = .seconds(5)
    /// The time for which a connection without a request is kept.
    ///
    /// Many servers end it themselves after a minute; one that is used just as its server closes it costs an attempt.
    package var idleTimeout: Duration = .seconds(30)
    /// Connections to a host at the same time; more requests wait for one.
    ///
    /// Far above what lanes need: an organization's `maximumConcurrency` bounds its requests, and hosts may be shared.
    package var connectionsPerHost = 1_000
    /// The longest answer body that is read, in bytes.
    package var maximumBodyBytes = 1_048_576
    /// Bytes of answer bodies that are held at the same time, of all organizations together.
    package var answerBytes = 67_108_864
    /// Event loops at most, at least 1; organizations are spread over them.
    package var eventLoops = 4

    package init() {}

    package var client: HTTPClient.Configuration {
        var client = HTTPClient.Configuration(redirectConfiguration: .disallow)
        client.timeout.connect = TimeAmount(connectTimeout)
        client.connectionPool.idleTimeout = TimeAmount(idleTimeout)
        client.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connectionsPerHost
        // a refused connection is an answer; the dispatcher decides when to try again
        client.connectionPool.retryConnectionEstablishment = false
        client.httpVersion = .http1Only
        // the one way to get at a connection's channel
        client.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                try pipeline.addHandlers([StatusCheck(), UnsolicitedResponseGuard()], position: .after(decoder))
                try pipeline.addHandler(SingleFlushHandler(), position: .first)
                // as much in one go as an upstream may have sent at once
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
    /// Creates a client that does everything on one event loop.
    ///
    /// If a request and its connection have two, one case ends the process (AsyncHTTPClient 1.37). A response arrives
    /// before all of the request is sent, on a connection that is closed immediately. Then the connection is returned
    /// to a pool that has forgotten it.
    package convenience init(
        _ configuration: Configuration,
        on loop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next()
    ) {
        self.init(eventLoopGroupProvider: .shared(loop), configuration: configuration)
    }
}
