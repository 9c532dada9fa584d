import Foundation

/// The state of a mutation at the gateway, from a push's response, from the response to a decision, or from an event.
struct MutationResult: Sendable {
    enum Status: String, Sendable {
        case pending, blocked, succeeded, conflict, failed, discarded, rejected
        case inFlight = "in_flight"

        /// Whether the mutation continues without a decision.
        var isOpen: Bool { [.pending, .blocked, .inFlight].contains(self) }

        /// Whether the state is final, which means that neither the gateway nor a decision changes it.
        var isFinal: Bool { self == .succeeded || self == .discarded }
    }

    let id: UUID
    let status: Status
    let serverID: JSON?
    let version: Int64?
    let etag: String?
    let blockedBy: [JSON]
    let resolution: String?
    let response: JSON?
    let error: JSON?
    let warnings: JSON?
    let revision: Int64?
    let attemptCount: Int64?
    let nextRetryAt: String?
    /// Whether the gateway had accepted the mutation before this push, perhaps from another device.
    let isReplay: Bool
    /// Whether the error was too long for the response.
    private let omitsError: Bool

    /// - Returns: nil if the value is not a result.
    init?(_ json: JSON) {
        guard let id = json["id"]?.string.flatMap(UUID.init(text:)),
            let status = json["status"]?.string
        else { return nil }
        func member(_ name: String) -> JSON? { json[name].flatMap { $0.isNull ? nil : $0 } }
        self.id = id
        // a status that is unknown to this version of the library is treated as not final, so it is requested again
        self.status = Status(rawValue: status) ?? .pending
        serverID = member("server_id")
        version = member("version")?.int64
        etag = member("etag")?.string
        blockedBy = (member("blocked_by")?.array ?? []).filter { $0.string.flatMap(UUID.init(text:)) != nil }
        resolution = member("resolution")?.string
        response = member("response")
        error = member("error")
        warnings = member("warnings")
        revision = member("revision")?.int64
        attemptCount = member("attempt_count")?.int64
        nextRetryAt = member("next_retry_at")?.string
        isReplay = json["replayed"]?.bool ?? false
        omitsError = member("omitted")?.array?.contains("error") ?? false
    }

    /// The present entity at the server, if the mutation's error contains the entity. In that case, the mutation did
    /// not take effect.
    var current: JSON? { error?["current"].flatMap { $0.isNull ? nil : $0 } }

    /// Whether the gateway's watermark covers the mutation's number, although the gateway does not have the mutation.
    var isNumberUsed: Bool { status == .rejected && error?["code"]?.string == "sequence_already_used" }

    /// Whether the gateway has accepted the mutation's key or id with other content.
    var isKeyReused: Bool { status == .rejected && Self.reuses.contains(error?["code"]?.string ?? "") }

    /// The error codes of ``isKeyReused``.
    static let reuses = ["idempotency_key_reused", "id_already_used"]

    /// Whether the response omits content that the client needs to show. If so, the mutation must be read separately.
    var isCut: Bool {
        guard [.conflict, .discarded, .failed].contains(status) else { return false }
        return error?["current_omitted"]?.bool ?? false || omitsError
    }
}
