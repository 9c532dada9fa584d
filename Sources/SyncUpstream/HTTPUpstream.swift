import AsyncHTTPClient
package import FoundationEssentials
import JSONText
package import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
package import SyncModel

/// Sends requests over HTTP/1.1, on connections that are kept.
///
/// Redirects are not followed. The client beneath sends each request once at most: it never repeats one, not even when
/// a kept connection turns out to be closed; so every request that was sent has been counted as an attempt.
///
/// It does not use HTTP/2: there one broken connection would leave the outcome of all its requests unknown.
package final class HTTPUpstream: Upstream {
    /// The token for `Authorization: Bearer` of a `signed` credential.
    package typealias Sign = @Sendable (_ organization: UUID, _ user: UUID) async throws -> String

    /// One for each event loop; see ``ResponseCollector/isSent`` for why.
    private let clients: [HTTPClient]
    let configuration: HTTPUpstreamConfiguration
    /// For the bodies of all answers.
    package let room: ResponseMemoryBudget
    private let names: HostNames
    private let sign: Sign?
    let now: TimeSource
    let logger: Logger

    /// Opens nothing yet. Call ``shutdown()`` before the last reference is released.
    ///
    /// - Parameters:
    ///   - now: the clock that `Retry-After` is read by.
    ///   - sign: makes tokens for `signed` credentials; nil if there is no key for them.
    ///   - names: checks whether names resolve in time.
    ///   - logger: gets failures at level debug; never contents, credentials or paths.
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

    /// Sends a request. Never throws: every failure is an answer. A cancelled task returns `unknown` soon.
    package func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer {
        let deadline = NIODeadline.now() + TimeAmount(request.timeout)
        let prepared: HTTPClient.Request
        do {
            prepared = try await prepare(request, for: upstream)
        } catch {
            return Task.isCancelled ? .unknown("cancelled") : error.answer
        }
        if let reason = await problem(ofName: prepared.host, of: request.organization) { return .notSent(reason) }
        let claim = room.claim(for: request.organization, user: request.user, until: deadline)
        defer { claim.stopWaiting() }
        let collector = ResponseCollector(maximumBytes: configuration.maximumBodyBytes, claim: claim)
        let task = client(for: request.organization)
            .execute(request: prepared, delegate: collector, deadline: deadline)
        do {
            let response = try await withTaskCancellationHandler {
                try await task.futureResult.get()
            } onCancel: {
                task.cancel()
                claim.stopWaiting()
            }
            return .response(read(response, claim))
        } catch {
            if let response = collector.cutResponse ?? collector.brokenSuccess {
                return .response(read(response, claim))
            }
            return failure(error, of: request, isSent: collector.isSent, isTLS: prepared.scheme == "https")
        }
    }

    private func read(_ collected: CollectedResponse, _ claim: ResponseMemoryBudget.Claim) -> UpstreamResponse {
        var response = UpstreamResponse(collected, now: now(), maximumBytes: configuration.maximumBodyBytes)
        response.room = MemoryReservation(claim)
        return response
    }

    /// Why a host's name cannot be looked up now; nil where it can.
    ///
    /// The client beneath looks names up in sequence on each event loop. A name that the resolver does not answer would
    /// delay the requests of all other organizations there, so it must not get that far.
    func problem(ofName host: String, of organization: UUID) async -> String? {
        switch await names.addresses(of: host, for: organization) {
        case .addresses: nil
        case .late: "resolving the host's name timed out"
        case .busy: "too many host names are being resolved"
        }
    }

    /// An organization's requests all go through one client, so that it finds its connections again.
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
            throw RequestTarget.Unsendable.request("the URL that its path makes cannot be used")
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

/// Reads from upstreams, by the connections that mutations are sent on.
extension HTTPUpstream: UpstreamReader {
    /// Never throws: every failure is a response. A cancelled task returns soon.
    package func fetch(_ request: UpstreamFetch, from upstream: UpstreamSettings) async -> FetchAnswer {
        let deadline = NIODeadline.now() + TimeAmount(request.timeout)
        let prepared: HTTPClient.Request
        do {
            prepared = try await prepare(request, for: upstream)
        } catch {
            return .none(Task.isCancelled ? "cancelled" : error.reason)
        }
        if let reason = await problem(ofName: prepared.host, of: request.organization) { return .none(reason) }
        let claim = room.claim(for: request.organization, user: Writer.elsewhere.user, until: deadline)
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
            // too long: the head determines the result
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
            // without a user
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
                headers: headers.fields
            )
        } catch {
            throw RequestTarget.Unsendable.request("the URL that its path makes cannot be used")
        }
    }
}

extension FetchedResponse {
    private static let maximumTypeBytes = 100

    /// The parts of a response that the gateway uses.
    init(_ collected: CollectedResponse, now: Timestamp) {
        let headers = collected.head.headers
        let common = UpstreamResponse(CollectedResponse(head: collected.head, body: nil), now: now)
        let type = headers.first(name: "Content-Type")?.before(";", " ")
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
        lastModified = headers.first(name: "Last-Modified").flatMap {
            $0.utf8.count <= Self.maximumTypeBytes && UpstreamRequest.canCarry($0)
                && $0.utf8.allSatisfy { $0 < 0x80 } ? $0 : nil
        }
    }

    private static func isPlain(_ type: Substring) -> Bool {
        let bytes = type.utf8
        return (1...maximumTypeBytes).contains(bytes.count) && bytes.allSatisfy { $0 > 0x20 && $0 < 0x7f }
    }
}
