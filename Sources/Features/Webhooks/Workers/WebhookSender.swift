import AsyncHTTPClient
package import Logging
import Metrics
import NIOCore
import NIOHTTP1
import Spans
package import StandardWebhooks
import SyncDispatch
package import SyncModel
import SyncStore
import SyncUpstream

/// Sends messages to an endpoint of an organization, but only to addresses that the operator of the gateway allows.
///
/// A session resolves the endpoint's host name once, checks all addresses, and connects only to one of these addresses.
/// A later change of the name's addresses has no effect on the session. Redirects are not followed.
package struct WebhookSender: Sendable {
    /// The time limit of a request, including the resolution of the name.
    package static let timeout: Duration = .seconds(15)
    /// The time limit for resolving a name.
    static let lookUpTimeout: Duration = .seconds(5)
    /// The maximum number of bytes of a response that are read; the rest is discarded unread.
    static let maximumAnswerBytes = 4_096

    private let policy: AddressPolicy
    private let userAgent: String
    private let now: TimeSource
    private let addresses: @Sendable (String) async -> [IPAddress]
    private let logger: Logger

    /// - Parameters:
    ///   - policy: the addresses to which connections are allowed.
    ///   - version: the program's version, in `User-Agent`.
    ///   - now: the clock for `Retry-After`.
    ///   - addresses: returns the addresses of a host.
    package init(
        policy: AddressPolicy,
        version: String,
        now: @escaping TimeSource,
        logger: Logger,
        addresses: @escaping @Sendable (String) async -> [IPAddress] = HostAddresses.of
    ) {
        self.policy = policy
        userAgent = "sluice/\(version)"
        self.now = now
        self.logger = logger
        self.addresses = addresses
    }

    /// Connections to one endpoint, for a few messages.
    package final class Session: Sendable {
        fileprivate let url: String
        /// The reason why nothing can be sent; nil if messages can be sent.
        fileprivate let problem: String?
        fileprivate let client: HTTPClient?
        private let logger: Logger

        fileprivate init(url: String, client: HTTPClient?, problem: String?, logger: Logger) {
            self.url = url
            self.client = client
            self.problem = problem
            self.logger = logger
        }

        /// Closes the session's connections. Call this before the last reference is released.
        package func close() async {
            do {
                try await client?.shutdown()
            } catch {
                logger.debug("Connections were not closed", metadata: ["error": "\(type(of: error))"])
            }
        }
    }

    /// Resolves an endpoint's name, and checks its addresses.
    package func open(_ url: String) async -> Session {
        func refused(_ reason: String) -> Session { Session(url: url, client: nil, problem: reason, logger: logger) }
        let target: WebhookURL
        do {
            target = try WebhookURL(url)
        } catch {
            return refused("the URL \(error.reason)")
        }
        let found = await lookUp(target.host)
        guard let address = found.first else { return refused("the host's name could not be resolved") }
        // if even one of the name's addresses is forbidden, the name is rejected, because such a name is an attack or a
        // mistake of its owner
        if let problem = found.lazy.compactMap({ policy.problem($0, isTLS: target.isTLS) }).first {
            return refused("webhooks are not sent there: \(problem)")
        }
        var configuration = HTTPUpstreamConfiguration()
        configuration.connectTimeout = .seconds(5)
        configuration.connectionsPerHost = 8
        var settings = configuration.client
        settings.dnsOverride = [target.host: address.unmapped.description]
        settings.decompression = .disabled
        return Session(url: target.text, client: HTTPClient(settings), problem: nil, logger: logger)
    }

    private func lookUp(_ host: String) async -> [IPAddress] {
        await withTaskGroup(of: [IPAddress]?.self) { group in
            // after the time limit, the sender stops waiting, because the system's resolver cannot be cancelled
            let (stream, continuation) = AsyncStream<[IPAddress]>.makeStream()
            Task { [addresses] in
                continuation.yield(await addresses(host))
                continuation.finish()
            }
            group.addTask {
                for await found in stream { return found }
                return []
            }
            group.addTask {
                try? await Task.sleep(for: Self.lookUpTimeout)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next()?.flatMap(\.self) ?? []
        }
    }

    /// Sends a message. The method never throws, because it returns failures as answers.
    ///
    /// - Parameter headers: the headers with the signature; `Content-Type` and the like are added.
    package func send(_ body: [UInt8], headers: [(name: String, value: String)], on line: Session) async
        -> WebhookAnswer
    {
        guard let client = line.client else { return .none(line.problem ?? "no request can be sent") }
        var fields = HTTPHeaders(headers.map { ($0.name, $0.value) })
        fields.add(name: "Content-Type", value: "application/json")
        fields.add(name: "Accept", value: "*/*")
        fields.add(name: "User-Agent", value: userAgent)
        guard
            let request = try? HTTPClient.Request(
                url: line.url,
                method: .POST,
                headers: fields,
                body: .byteBuffer(ByteBuffer(bytes: body))
            )
        else { return .none("the URL cannot be used") }
        let collector = ResponseCollector(maximumBytes: Self.maximumAnswerBytes)
        let task = client.execute(request: request, delegate: collector, deadline: .now() + TimeAmount(Self.timeout))
        do {
            let response = try await withTaskCancellationHandler {
                try await task.futureResult.get()
            } onCancel: {
                task.cancel()
            }
            return answer(response)
        } catch {
            // only the status matters, even if the rest of the response is broken
            if let response = collector.cutResponse ?? collector.brokenSuccess { return answer(response) }
            let isTLS = request.scheme == "https"
            return .none(
                RequestFailure(error).reason(isSent: collector.isSent, isTLS: isTLS, timeout: Self.timeout)
            )
        }
    }

    private func answer(_ response: CollectedResponse) -> WebhookAnswer {
        let moment = now()
        let retryAt = response.head.headers.first(name: "Retry-After").flatMap {
            Timestamp(retryAfter: $0, now: moment)
        }
        return .status(Int(response.head.status.code), retryAt: retryAt)
    }
}

extension WebhookDispatcher.WebhookTransport {
    /// Returns a transport that signs and sends messages. It signs with the endpoint's secrets and, if the gateway has
    /// a key, with this key.
    package static func signing(
        by key: WebhookSigningKey?,
        with sender: WebhookSender,
        now: @escaping TimeSource
    ) -> WebhookDispatcher.WebhookTransport {
        WebhookDispatcher.WebhookTransport { url in
            let line = await sender.open(url)
            return Session { delivery, lease in
                let secrets = lease.secrets.compactMap(WebhookSecret.init)
                guard secrets.count == lease.secrets.count else { return .none("the secret cannot be used; rotate it") }
                let body = delivery.body(of: lease.endpoint.organization)
                let signer = WebhookSigner(secrets: secrets, key: key)
                do {
                    var headers = try signer.headers(
                        id: delivery.messageID,
                        timestamp: now().seconds,
                        body: body
                    )
                    let span = Spans.delivery(delivery, lease)
                    if let span { headers.append((name: "traceparent", value: span.context.traceparent)) }
                    let answer = await sender.send(body, headers: headers, on: line)
                    span?.end(answer)
                    return answer
                } catch {
                    return .none("the message could not be signed")
                }
            } close: {
                await line.close()
            }
        }
    }
}

extension Spans {
    /// Starts the span of a delivery in a new trace, because deliveries do not store the trace of the reported change.
    static func delivery(_ delivery: WebhookDelivery, _ lease: WebhookStore.Lease) -> GatewaySpan? {
        guard let span = root("POST", .client) else { return nil }
        span.set(.method, "POST")
        span.set(target: lease.url)
        span.set(organization: lease.endpoint.organization)
        span.set(.webhookEvent, delivery.event.rawValue)
        if delivery.attemptCount > 0 { span.set(.resends, Int(delivery.attemptCount)) }
        return span
    }
}

extension GatewaySpan {
    func end(_ answer: WebhookAnswer) {
        switch answer {
        case .status(let status, _): end(status: status)
        case .none:
            fail("no_response")
            end()
        }
    }
}

/// The metrics of webhook deliveries. ``WebhooksFeature/describeMetrics(in:)`` registers their descriptions.
package struct WebhookMetrics: Sendable {
    /// Attempts to deliver a webhook, by `outcome`: delivered, waiting (to be attempted again), dead.
    package static let attempts = "sluice_webhook_attempts_total"
    /// Duration of requests to endpoints.
    package static let requestDuration = "sluice_webhook_request_duration_seconds"
    /// Results of attempts that were discarded because another gateway had claimed the endpoint.
    package static let leasesLost = "sluice_webhook_leases_lost_total"

    private let counters: [WebhookOutcome.Status: Counter]
    private let duration = Timer(label: Self.requestDuration)
    private let lost = Counter(label: Self.leasesLost)

    init() {
        let counters = WebhookOutcome.Status.allCases.map { status in
            (status, Counter(label: Self.attempts, dimensions: [("outcome", status.rawValue)]))
        }
        self.counters = Dictionary(uniqueKeysWithValues: counters)
    }

    /// Counts an attempt.
    ///
    /// - Parameter elapsed: the request's duration; nil if nothing was sent.
    func attempt(_ status: WebhookOutcome.Status, took elapsed: Duration?) {
        counters[status]?.increment()
        if let elapsed { duration.recordNanoseconds(elapsed.nanoseconds) }
    }

    func leaseLost() { lost.increment() }
}
