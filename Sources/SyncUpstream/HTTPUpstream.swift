import AsyncHTTPClient
package import FoundationEssentials
import JSONText
package import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
package import SyncModel

/// Sends requests over HTTP/1.1, on persistent connections.
///
/// Redirects are not followed. The underlying client sends each request at most once, even if a persistent connection
/// turns out to be closed. Because of this, the gateway counts every request that was sent as an attempt.
///
/// HTTP/2 is not used, because the outcomes of all requests on a connection would be unknown if the connection ended.
package final class HTTPUpstream: Upstream {
    /// Creates the token for `Authorization: Bearer` of a `signed` credential.
    package typealias Sign = @Sendable (_ organization: UUID, _ user: UUID) async throws -> String

    /// One client for each event loop, for the reason in ``ResponseCollector/isSent``.
    private let clients: [HTTPClient]
    let configuration: HTTPUpstreamConfiguration
    /// The memory for the bodies of all responses.
    package let room: ResponseMemoryBudget
    private let names: HostNames
    private let sign: Sign?
    let now: TimeSource
    let logger: Logger

    /// Creates an upstream client without connections. Call ``shutdown()`` before the last reference is released.
    ///
    /// - Parameters:
    ///   - now: the clock for `Retry-After`.
    ///   - sign: creates tokens for `signed` credentials; nil if there is no key for such tokens.
    ///   - names: checks whether names resolve in time.
    ///   - logger: receives failures at level debug, but never contents, credentials or paths.
    package init(
        configuration: HTTPUpstreamConfiguration = .init(),
        sign: Sign? = nil,
        now: @escaping TimeSource,
        names: HostNames = HostNames(),
        logger: Logger
    ) {
        self.configuration = configuration
        room = ResponseMemoryBudget(bytes: configuration.answerBytes)
        self.names = names
        self.sign = sign
        self.now = now
        self.logger = logger
        clients = MultiThreadedEventLoopGroup.singleton.makeIterator().prefix(max(1, configuration.eventLoops)).map {
            HTTPClient(configuration.client, on: $0)
        }
    }

    package func shutdown() async {
        for client in clients {
            do {
                try await client.shutdown()
            } catch {
                logger.debug("Upstream connections were not closed", metadata: ["error": "\(type(of: error))"])
            }
        }
    }

    /// Sends a request. The method never throws, because it returns failures as answers. If its task is cancelled, it
    /// soon returns `unknown`.
    package func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer {
        let deadline = NIODeadline.now() + TimeAmount(request.timeout)
        let prepared: HTTPClient.Request
        do {
            prepared = try await prepare(request, for: upstream)
        } catch {
            return Task.isCancelled ? .unknown("cancelled") : error.answer
        }
        if let reason = await problem(ofName: prepared.host, of: request.organization) { return .notSent(reason) }
        let claim = room.claim(
            for: request.organization,
            user: request.user,
            isFast: request.isUpstreamFast,
            until: deadline
        )
        defer { claim.stopWaiting() }
        let maximumBytes = configuration.maximumBodyBytes(parts: request.partCount)
        let collector = ResponseCollector(maximumBytes: maximumBytes, claim: claim)
        let task = client(for: request.organization)
            .execute(request: prepared, delegate: collector, deadline: deadline)
        do {
            let response = try await withTaskCancellationHandler {
                try await task.futureResult.get()
            } onCancel: {
                task.cancel()
                claim.stopWaiting()
            }
            return .response(read(response, claim, maximumBytes))
        } catch {
            if let response = collector.cutResponse ?? collector.brokenSuccess {
                return .response(read(response, claim, maximumBytes))
            }
            return failure(error, of: request, isSent: collector.isSent, isTLS: prepared.scheme == "https")
        }
    }

    private func read(
        _ collected: CollectedResponse,
        _ claim: ResponseMemoryBudget.Claim,
        _ maximumBytes: Int
    ) -> UpstreamResponse {
        var response = UpstreamResponse(collected, now: now(), maximumBytes: maximumBytes)
        response.room = MemoryReservation(claim)
        return response
    }

    /// The reason why a host's name cannot be resolved now; nil if it can be resolved.
    ///
    /// The underlying client resolves the names of each event loop one by one. A name for which the resolver does not
    /// answer would delay the requests of all other organizations on this loop. To prevent this, the gateway does not
    /// pass such names to the client.
    func problem(ofName host: String, of organization: UUID) async -> String? {
        switch await names.addresses(of: host, for: organization) {
        case .addresses: nil
        case .late: "resolving the host's name timed out"
        case .busy: "too many host names are being resolved"
        }
    }

    /// The client for an organization. All requests of an organization use one client, so that they can reuse
    /// connections.
    func client(for organization: UUID) -> HTTPClient {
        clients[Int(organization.uuid.15) % clients.count]
    }

    private func prepare(
        _ request: UpstreamRequest,
        for upstream: UpstreamSettings
    ) async throws(RequestTarget.Unsendable) -> HTTPClient.Request {
        let target = try RequestTarget(upstream, path: request.path)
        let headers = RequestHeaders(
            request,
            host: target.base.host,
            credential: try await credential(upstream.credential, of: request.organization, for: request.user),
            operators: upstream.headers,
            userAgent: "sluice/\(configuration.version)"
        )
        do {
            return try HTTPClient.Request(
                url: target.url,
                method: HTTPMethod(rawValue: request.method),
                headers: headers.fields,
                body: request.body.map { .byteBuffer(ByteBuffer(bytes: $0)) }
            )
        } catch {
            throw RequestTarget.Unsendable.request("the URL with its path cannot be used")
        }
    }

    func credential(
        _ credential: UpstreamCredential?,
        of organization: UUID,
        for user: UUID
    ) async throws(RequestTarget.Unsendable) -> (name: String, value: String)? {
        let header: (name: String, value: String)
        switch credential {
        case nil: return nil
        case .bearer(let token): header = ("Authorization", "Bearer \(token)")
        case .header(let name, let value): header = (name, value)
        case .signed:
            guard let sign else { throw RequestTarget.Unsendable.setup("no signing key is configured") }
            do {
                header = ("Authorization", "Bearer \(try await sign(organization, user))")
            } catch {
                throw RequestTarget.Unsendable.setup("the credential could not be signed")
            }
        }
        if UpstreamSettings.headerProblem(name: header.name, value: header.value, isCredential: true) != nil {
            throw RequestTarget.Unsendable.setup("the credential cannot be sent in a header")
        }
        return header
    }

    private func failure(
        _ error: any Error,
        of request: UpstreamRequest,
        isSent: Bool,
        isTLS: Bool
    ) -> UpstreamAnswer {
        let failure = RequestFailure(error)
        let reason = failure.reason(isSent: isSent, isTLS: isTLS, timeout: request.timeout)
        var metadata: Logger.Metadata = [
            "organization": "\(request.organization.lowercased)", "reason": "\(reason)", "sent": "\(isSent)",
        ]
        metadata["trace_id"] = request.trace.map { "\($0.traceIDText)" }
        logger.debug("Upstream request failed", metadata: metadata)
        switch failure {
        case .cancelled: return .unknown(reason)
        case .shutDown where !isSent: return .unready(reason)
        default: break
        }
        return isSent ? .unknown(reason) : .notSent(reason)
    }
}

/// Reads from upstreams, on the same connections as the requests of mutations.
extension HTTPUpstream: UpstreamReader {
    /// Sends a request that only reads. The method never throws, because it returns failures as answers. If its task is
    /// cancelled, it returns soon.
    package func fetch(_ request: UpstreamFetch, from upstream: UpstreamSettings) async -> FetchAnswer {
        let deadline = NIODeadline.now() + TimeAmount(request.timeout)
        let prepared: HTTPClient.Request
        do {
            prepared = try await prepare(request, for: upstream)
        } catch {
            return .none(Task.isCancelled ? "cancelled" : error.reason)
        }
        if let reason = await problem(ofName: prepared.host, of: request.organization) { return .none(reason) }
        let claim = room.claim(
            for: request.organization,
            user: Writer.elsewhere.user,
            isFast: false,
            until: deadline
        )
        defer { claim.stopWaiting() }
        let collector = ResponseCollector(maximumBytes: request.maximumBytes, claim: claim)
        let task = client(for: request.organization)
            .execute(request: prepared, delegate: collector, deadline: deadline)
        do {
            let response = try await withTaskCancellationHandler {
                try await task.futureResult.get()
            } onCancel: {
                task.cancel()
                claim.stopWaiting()
            }
            var fetched = FetchedResponse(response, now: now())
            fetched.room = MemoryReservation(claim)
            return .response(fetched)
        } catch {
            // if the body is too long, the head alone determines the result
            if let response = collector.cutResponse { return .response(FetchedResponse(response, now: now())) }
            let isTLS = prepared.scheme == "https"
            let reason = RequestFailure(error)
                .reason(isSent: collector.isSent, isTLS: isTLS, timeout: request.timeout)
            logger.debug(
                "Upstream could not be read",
                metadata: ["organization": "\(request.organization.lowercased)", "reason": "\(reason)"]
            )
            return .none(reason)
        }
    }

    private func prepare(
        _ request: UpstreamFetch,
        for upstream: UpstreamSettings
    ) async throws(RequestTarget.Unsendable) -> HTTPClient.Request {
        let target = try RequestTarget(upstream, path: request.path)
        let headers = RequestHeaders(
            request,
            host: target.base.host,
            // a fetch belongs to no user, so its token is not issued for a user
            credential: try await credential(
                upstream.credential,
                of: request.organization,
                for: Writer.elsewhere.user
            ),
            operators: upstream.headers,
            userAgent: "sluice/\(configuration.version)"
        )
        do {
            return try HTTPClient.Request(
                url: target.url,
                method: HTTPMethod(rawValue: request.method),
                headers: headers.fields,
                body: request.body.map { .byteBuffer(ByteBuffer(bytes: $0)) }
            )
        } catch {
            throw RequestTarget.Unsendable.request("the URL with its path cannot be used")
        }
    }
}

extension FetchedResponse {
    private static let maximumTypeBytes = 100

    /// The parts of a response that the gateway uses.
    init(_ collected: CollectedResponse, now: Timestamp) {
        let headers = collected.head.headers
        let common = UpstreamResponse(CollectedResponse(head: collected.head, body: nil), now: now)
        let type = headers.first(name: "Content-Type")?.before(";", " ", "\t")
        self.init(
            status: common.status,
            retryAt: common.retryAt,
            location: common.location,
            challenge: common.challenge,
            contentType: type.flatMap { Self.isPlain($0) ? String($0) : nil },
            etag: common.etag,
            links: headers["Link"],
            body: collected.body.map { Array($0.readableBytesView) }
        )
        contentEncoding = headers.first(name: "Content-Encoding")
        lastModified = headers.first(name: "Last-Modified").map(HeaderField.trimmed).flatMap {
            $0.utf8.count <= Self.maximumTypeBytes && UpstreamRequest.canCarry($0)
                && $0.utf8.allSatisfy { $0 < 0x80 } ? $0 : nil
        }
    }

    private static func isPlain(_ type: Substring) -> Bool {
        let bytes = type.utf8
        return (1...maximumTypeBytes).contains(bytes.count) && bytes.allSatisfy { $0 > 0x20 && $0 < 0x7f }
    }
}
