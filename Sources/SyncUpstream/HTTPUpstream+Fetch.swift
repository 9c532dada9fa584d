import AsyncHTTPClient
import JSONText
import Logging
import NIOCore
import NIOHTTP1
package import SyncModel

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
