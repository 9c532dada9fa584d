import FoundationEssentials
import HTTPTypes
import JSONText
import Logging
import NIOCore
import StandardWebhooks
import SyncHTTP
import SyncModel
import SyncStore
import Telemetry

/// `POST /v1/sources/{organization}/{source}`: receives webhooks from an organization's API.
///
/// The messages are signed according to Standard Webhooks. The signature authenticates the sender, and no body is
/// parsed before its signature is verified.
struct ReceiverEndpoint: Sendable {
    /// The maximum size of a message, in bytes. If the limit of pushes is lower, that limit applies.
    ///
    /// The size is small because the sender is authenticated only after the whole message has arrived.
    static let maximumBytes = 1_048_576

    let store: Store
    let bodies: BodyReader
    let limits: IntakeLimits
    /// Limits the number of bodies that are decoded concurrently, including the bodies of pushes.
    let gate: AdmissionController
    /// The authenticator of users, which also looks up organizations and enforces their quotas.
    let authenticator: Authenticator
    let now: @Sendable () -> Timestamp
    let logger: Logger

    private let verifier = SourceVerifier()
    private let metrics = SourceMetrics()
    /// Limits log lines about callers without a valid signature to one per second.
    private let warned = Throttle(.seconds(1), isDueFirst: true)

    init(
        store: Store,
        bodies: BodyReader,
        limits: IntakeLimits,
        gate: AdmissionController,
        authenticator: Authenticator,
        now: @escaping @Sendable () -> Timestamp,
        logger: Logger
    ) {
        self.store = store
        self.bodies = bodies
        self.limits = limits
        self.gate = gate
        self.authenticator = authenticator
        self.now = now
        self.logger = logger
    }

    func receive(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard let head = SourceVerifier.Head(exchange.headers, now: now()) else { throw refuse(exchange) }
        let receiver = try await receiver(exchange)
        let source = Self.standInID(for: exchange.parameters)
        // unknown sources share one small part of the memory, so that invented names use no memory of existing sources
        let destination = receiver?.isEnabled == true ? source : nil
        return try await bodies.withUnverifiedBody(of: exchange, addressedTo: destination) { body, arrival in
            let isGood = try await isGood(head, body, of: receiver, addressedTo: source, exchange)
            guard isGood, let receiver else { throw refuse(exchange) }
            // the signature is valid, and from here on the message counts toward the organization's quota
            let user = LaneKey(organization: receiver.key.organization, user: receiver.standInID)
            try bodies.budget.take(body.count, for: user)
            defer { bodies.budget.release(body.count, of: user) }
            arrival.end()
            return try await take(body, head.id, from: receiver, exchange)
        }
    }

    /// Verifies a message. Large messages are queued, so that many messages for one source, or from one address, mainly
    /// delay each other.
    private func isGood(
        _ head: SourceVerifier.Head,
        _ body: [UInt8],
        of receiver: SourceReceivers.Receiver?,
        addressedTo source: UUID,
        _ exchange: Exchange
    ) async throws -> Bool {
        func verify() async throws -> Bool {
            try await BlockingWork.read(body) { [verifier, now] body throws(Problem) in
                verifier.isGood(head, body, of: receiver, now: now())
            }
        }
        guard body.count > BlockingWork.quicklyRead else { return try await verify() }
        let address = exchange.channel.remoteAddress?.ipAddress ?? ""
        let user = LaneKey(organization: source, user: IngestSource.standInID(in: source, for: address))
        return try await exchange.budgets.verifying.admit(body.count, for: user) { try await verify() }
    }

    /// Returns an id that represents the source in a request's path, whether or not this source exists. The same path
    /// always gives the same id.
    private static func standInID(for parameters: [Substring]) -> UUID {
        let organization = UUID(parsing: String(parameters[0])) ?? LaneKey.unknown.organization
        return IngestSource.standInID(in: organization, for: String(parameters[1].prefix(64)))
    }

    private func receiver(_ exchange: Exchange) async throws(Problem) -> SourceReceivers.Receiver? {
        let name = String(exchange.parameters[1])
        guard let organization = UUID(parsing: String(exchange.parameters[0])), IngestSource.isValid(name) else {
            return nil
        }
        return try await store.receivers.receiver(SourceKey(organization: organization, name: name))
    }

    /// Returns the same refusal for all reasons, so that a caller without a secret cannot find out which sources exist.
    private func refuse(_ exchange: Exchange) -> Refusal {
        metrics.run(.webhook, .unauthorized)
        logger.log(
            level: warned.isDue() ? .notice : .debug,
            "A message for a source was rejected: the source is unknown or disabled, or the signature is invalid",
            metadata: [
                LogKeys.requestID: .string(exchange.requestID),
                "source": .string("\(exchange.parameters[0].prefix(36))/\(exchange.parameters[1].prefix(64))"),
            ]
        )
        return Refusal(
            Problem(.unauthorized, "No source of this name accepts a message with this signature and time."),
            headers: [.wwwAuthenticate: "Webhook-Signature"]
        )
    }

    // MARK: - Messages with a valid signature

    /// Ingests a message within the organization's quota of requests.
    private func take(
        _ body: [UInt8],
        _ messageID: String,
        from receiver: SourceReceivers.Receiver,
        _ exchange: Exchange
    ) async throws -> Answer {
        do {
            let organization = try await authenticator.activeOrganization(receiver.key.organization)
            let standInID = receiver.standInID
            var exchange = exchange
            exchange.user = LaneKey(organization: organization.id, user: standInID)
            try exchange.hold.assign(to: exchange.user)
            guard organization.settings.hasQuota else {
                return try await submit(body, messageID, from: receiver, exchange)
            }
            let caller = Caller(organization: organization, user: standInID, expiresAt: .max)
            return try await authenticator.quotas.answer(exchange, caller) { exchange, _ in
                try await submit(body, messageID, from: receiver, exchange)
            }
        } catch {
            metrics.run(.webhook, .failed)
            throw error
        }
    }

    private func submit(
        _ body: [UInt8],
        _ messageID: String,
        from receiver: SourceReceivers.Receiver,
        _ exchange: Exchange
    ) async throws -> Answer {
        let (events, answer) = try await gate.admit(body.count, for: exchange.user) {
            do throws(Problem) {
                let events = try await BlockingWork.read(body) { [limits] body throws(Problem) in
                    try Self.events(of: body, messageID, by: receiver.settings.mapping, limits)
                }
                let request = IngestRequest(entries: events.entries, bodyBytes: body.count)
                // a batch that is too large is halved here, because the sender cannot divide a message
                return (events, try await store.ingest.submitHalving(request, from: receiver.bearer))
            } catch {
                await record(error, receiver, exchange)
                throw error
            }
        }
        metrics.events(.webhook, answer.verdicts, ignored: events.ignored)
        if let problem = Self.problem(of: answer.verdicts, events) {
            await record(problem, receiver, exchange)
            throw problem
        }
        metrics.run(.webhook, .succeeded)
        await store.receivers.succeeded(receiver)
        return Answer(.ok, capacity: answer.expectedBytes) { writer in
            answer.writeMembers(to: &writer)
            writer.member("ignored", Int64(events.ignored))
        }
    }

    private static func events(
        of body: [UInt8],
        _ messageID: String,
        by mapping: SourceMapping,
        _ limits: IntakeLimits
    ) throws(Problem) -> MappedEvents {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body.withoutByteOrderMark, limits: JSONLimits(maximumBytes: limits.bodyBytes))
        } catch {
            throw Problem(jsonError: error, limit: limits.bodyBytes)
        }
        // another reader of the message may use the last of several members with one name
        if let defect = tree.root.firstRepeatedMember { throw Problem(defect) }
        return try mapping.map(tree.root, id: .message(ByteExactString(messageID)), limits: limits)
    }

    /// Returns the reason why the sender must send a message again; nil if all events in the message were accepted.
    ///
    /// Accepted events stay accepted even if other events of the message were refused. The reason has a status that
    /// makes the sender retry. Another status, such as 410, would end the deliveries permanently.
    static func problem(of verdicts: [IngestVerdict], _ events: MappedEvents) -> Problem? {
        let refused = verdicts.enumerated().compactMap { index, verdict in
            verdict.problem.map { events.placed($0, of: index) }
        }
        guard let first = refused.first else { return nil }
        if let overloaded = refused.first(where: { $0.code == .overloaded }) { return overloaded }
        let more = refused.count > 1 ? " (and \(refused.count - 1) more events were rejected)" : ""
        var problem = Problem(.validationFailed, first.detail + more, errors: refused.flatMap(\.errors))
        problem.omittedErrors += refused.reduce(0) { $0 + $1.omittedErrors }
        return problem
    }

    private func record(_ problem: Problem, _ receiver: SourceReceivers.Receiver, _ exchange: Exchange) async {
        // these problems are temporary and not caused by the source, so they are not recorded as failures of the source
        guard ![.overloaded, .storeUnavailable, .keysUnavailable].contains(problem.code) else { return }
        let place = problem.errors.first.map { " (at '\($0.pointer)')" } ?? ""
        logger.notice(
            "A source's message was rejected",
            metadata: [
                LogKeys.requestID: .string(exchange.requestID),
                LogKeys.organization: .string(receiver.key.organization.lowercased),
                "source": .string(receiver.key.name), LogKeys.reason: .string(problem.detail + place),
            ]
        )
        await store.receivers.failed(receiver, problem.detail + place)
    }
}

extension SourceReceivers.Receiver {
    /// An id that represents the source where a user's id is required.
    fileprivate var standInID: UUID { IngestSource.standInID(in: key.organization, for: key.name) }
}

// MARK: - SourceVerifier

/// Verifies that a message is from its source.
///
/// A verification takes the same time for each source, and for a name that no source has. The verification always uses
/// two secrets and two public keys. If a source has fewer, random values are used in their place.
struct SourceVerifier: Sendable {
    /// The maximum number of secrets that are valid at the same time.
    private static let width = 2
    /// The maximum number of signatures that are checked in a message. The limit is low because the time to check a
    /// `v1a` signature grows with the body, and the sender is not authenticated yet.
    private static let maximumSignatures = 6

    /// The headers of a message. They are read before its body.
    struct Head: Sendable {
        let id: String
        let timestamp: String
        let signatures: String

        /// Reads the headers. Returns nil if a header is missing, or if the headers are invalid for every source.
        init?(_ headers: HTTPFields, now: Timestamp) {
            guard let id = headers[.webhookID], let timestamp = headers[.webhookTimestamp],
                let signatures = headers[.webhookSignature],
                !id.isEmpty, id.utf8.count <= WebhookVerifier.maximumIDBytes,
                // the id becomes part of event ids, which contain no control characters
                id.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }),
                timestamp.utf8.count <= 12, let seconds = Int64(timestamp),
                abs(now.seconds - seconds) <= WebhookVerifier.defaultTolerance,
                !signatures.isEmpty, signatures.utf8.count <= WebhookVerifier.maximumSignatureBytes,
                signatures.split(separator: " ").count <= maximumSignatures
            else { return nil }
            self.id = id
            self.timestamp = timestamp
            self.signatures = signatures
        }
    }

    /// Random secrets and keys that belong to no source.
    private let secrets = (0..<width).map { _ in WebhookSecret() }
    private let keys = (0..<width).map { _ in WebhookSigningKey().publicKey }

    /// Whether a message is from its source.
    ///
    /// - Parameter receiver: the source; nil if there is no such source. The result is then false, as for a disabled
    ///   source.
    func isGood(
        _ head: Head,
        _ body: [UInt8],
        of receiver: SourceReceivers.Receiver?,
        now: Timestamp
    ) -> Bool {
        let texts = receiver?.secrets ?? []
        let secrets = texts.compactMap { $0.hasPrefix(WebhookPublicKey.prefix) ? nil : WebhookSecret($0) }
        let keys = texts.compactMap { $0.hasPrefix(WebhookPublicKey.prefix) ? WebhookPublicKey($0) : nil }
        let verifier = WebhookVerifier(
            secrets: secrets + self.secrets.prefix(Self.width - secrets.count),
            keys: keys + self.keys.prefix(Self.width - keys.count)
        )
        do throws(WebhookVerificationError) {
            try verifier.verify(
                id: head.id,
                timestamp: head.timestamp,
                signatures: head.signatures,
                body: body,
                now: now.seconds
            )
            return receiver?.isEnabled == true
        } catch {
            return false
        }
    }
}
