public import JSONText

/// The machine-readable code of a problem; its `type` is `urn:sluice:problem:CODE` (RFC 9457).
public enum ProblemCode: String, Sendable, Hashable, CaseIterable {
    // whole requests
    case invalidJSON = "invalid_json"
    case invalidRequest = "invalid_request"
    case unauthorized
    case organizationUnknown = "organization_unknown"
    case organizationSuspended = "organization_suspended"
    case userUnknown = "user_unknown"
    case forbidden
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case notAcceptable = "not_acceptable"
    case unsupportedMediaType = "unsupported_media_type"
    case requestTimeout = "request_timeout"
    case sequenceGap = "sequence_gap"
    case statusTransitionMustBeValid = "status_transition_must_be_valid"
    case idSpaceIsImmutable = "id_space_is_immutable"
    case cursorExpired = "cursor_expired"
    case payloadTooLarge = "payload_too_large"
    case rateLimited = "rate_limited"
    case overloaded
    case storeUnavailable = "store_unavailable"
    case keysUnavailable = "keys_unavailable"
    case internalError = "internal_error"
    // whole requests and single entries
    case validationFailed = "validation_failed"
    // single entries
    case idempotencyKeyReused = "idempotency_key_reused"
    case idAlreadyUsed = "id_already_used"
    case sequenceAlreadyUsed = "sequence_already_used"
    case dependencyRejected = "dependency_rejected"
    case referenceAmbiguous = "reference_ambiguous"
    case conflict
    case upstreamRejected = "upstream_rejected"
    case maxAttemptsReached = "max_attempts_reached"
    case discarded

    /// The HTTP status that goes with the code.
    public var status: Int {
        switch self {
        case .invalidJSON, .invalidRequest: 400
        case .unauthorized: 401
        case .organizationUnknown, .organizationSuspended, .userUnknown, .forbidden: 403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .notAcceptable: 406
        case .requestTimeout: 408
        case .sequenceGap, .statusTransitionMustBeValid, .idSpaceIsImmutable, .idAlreadyUsed, .sequenceAlreadyUsed,
            .conflict, .discarded:
            409
        case .cursorExpired: 410
        case .payloadTooLarge: 413
        case .unsupportedMediaType: 415
        case .validationFailed, .idempotencyKeyReused, .referenceAmbiguous, .upstreamRejected: 422
        case .maxAttemptsReached: 422
        case .dependencyRejected: 424
        case .rateLimited: 429
        case .internalError: 500
        case .overloaded, .storeUnavailable, .keysUnavailable: 503
        }
    }

    /// A short summary that is the same for every occurrence.
    public var title: String {
        switch self {
        case .invalidJSON: "The body is not valid JSON"
        case .invalidRequest: "The request is not valid"
        case .unauthorized: "A valid bearer token is required"
        case .organizationUnknown: "The organization is not known here"
        case .organizationSuspended: "The organization is suspended"
        case .userUnknown: "The user is not known here"
        case .forbidden: "Not allowed"
        case .notFound: "Not found"
        case .methodNotAllowed: "The method is not allowed here"
        case .notAcceptable: "No acceptable representation"
        case .unsupportedMediaType: "The media type is not supported"
        case .requestTimeout: "The request took too long to arrive"
        case .sequenceGap: "Earlier mutations of this device are missing"
        case .statusTransitionMustBeValid: "The mutation's status does not allow this"
        case .idSpaceIsImmutable: "The id space of this entity type is fixed"
        case .cursorExpired: "The cursor has expired"
        case .payloadTooLarge: "The request is too large"
        case .rateLimited: "Too many requests"
        case .overloaded: "The gateway is overloaded"
        case .storeUnavailable: "The store is not available"
        case .keysUnavailable: "Tokens cannot be verified yet"
        case .internalError: "Something went wrong here"
        case .validationFailed: "What was sent is not valid"
        case .idempotencyKeyReused: "The idempotency key was used with other content"
        case .idAlreadyUsed: "The id was used under another idempotency key"
        case .sequenceAlreadyUsed: "The sequence number was used before"
        case .dependencyRejected: "A mutation that this one depends on was rejected"
        case .referenceAmbiguous: "A client id names entities of two types"
        case .conflict: "Another writer changed the entity"
        case .upstreamRejected: "The server refused the mutation"
        case .maxAttemptsReached: "The mutation is out of attempts"
        case .discarded: "The mutation was given up"
        }
    }
}

/// One thing that is wrong, and where.
public struct ProblemDetail: Sendable, Hashable {
    /// RFC 6901 pointer into the request body.
    public var pointer: String
    /// The rule that was broken, by its name in the seeds where they have one.
    public var rule: String
    /// What was wrong and what to do.
    public var detail: String

    /// Creates the value.
    public init(pointer: String, rule: String, detail: String) {
        self.pointer = pointer
        self.rule = rule
        self.detail = detail
    }
}

/// Names of rules that are not in the seeds; those that are stand as written there.
public enum Rule {
    /// Seed 001: a known operation or its HTTP verb.
    public static let operation = "operation_must_be_valid_verb"
    /// Seed 001: a path that cannot leave the base URL.
    public static let endpoint = "endpoint_must_be_relative_path"
    /// Seed 001: JSON within the limits, and an object for built-in types.
    public static let payload = "payload_must_be_valid_json"
    /// Seed 001: above the device's watermark.
    public static let sequence = "sequence_number_must_be_monotonic"
    /// Seed 001: known to this user, or earlier in the push.
    public static let dependencies = "dependency_ids_must_exist_in_queue"
    /// Seed 000: a UUID.
    public static let clientID = "client_id_uuid_format"
    /// Seed 000: well-formed, and registered where the organization wants that.
    public static let entityType = "entity_type_valid_enum"
    /// Seed 000: created once.
    public static let uniqueClientID = "unique_client_id_per_entity_type"
    /// A member is missing or null.
    public static let required = "member_required"
    /// A member that nobody knows.
    public static let unknownMember = "member_unknown"
    /// A member that comes twice.
    public static let duplicateMember = "member_duplicate"
    /// A member of another JSON type or name.
    public static let memberType = "member_type"
    /// A number, text or list outside its bounds.
    public static let range = "member_range"
    /// Not a UUID.
    public static let uuid = "uuid_format"
    /// Not an id as a server gives it.
    public static let serverID = "server_id_format"
    /// Not an RFC 3339 date-time.
    public static let timestamp = "timestamp_rfc3339"
    /// A user has as many devices as registering makes.
    public static let deviceLimit = "device_limit"
    /// A header that a mutation may not carry.
    public static let header = "header_not_allowed"
    /// An entity that nobody created, or two names that do not agree.
    public static let entityReference = "entity_reference_must_exist"
}

/// A problem in the sense of RFC 9457, of a request or of one entry. Bland to the outside: no SQL, no stack, nobody
/// else's data.
public struct Problem: Error, Sendable, Hashable {
    /// What kind of problem it is.
    public var code: ProblemCode
    /// What was wrong in this occurrence, fit for the caller's eyes.
    public var detail: String
    /// Every place that is wrong, where there are such.
    public var errors: [ProblemDetail]
    /// `sequence_gap`: the watermark that the server holds.
    public var expected: Int64?
    /// `cursor_expired`: where to start over.
    public var snapshot: String?
    /// The entity that stands in the mutation's place, JSON, when the caller may see it.
    public var current: [UInt8]?
    /// Seconds after which to try again; becomes the `Retry-After` header.
    public var retryAfter: Int?
    /// `rate_limited`: what is left of the quota that was used up; becomes the `RateLimit` header.
    public var standing: QuotaStanding?

    /// Creates a problem.
    public init(_ code: ProblemCode, _ detail: String, errors: [ProblemDetail] = []) {
        self.code = code
        self.detail = detail
        self.errors = errors
    }

    /// A problem about one place in the body.
    public init(_ code: ProblemCode, pointer: String, rule: String, _ detail: String) {
        self.init(code, detail, errors: [ProblemDetail(pointer: pointer, rule: rule, detail: detail)])
    }
}

extension Problem {
    /// Writes the problem object; `requestID` belongs to answers, not to what is stored.
    public func write(to writer: inout JSONWriter, requestID: String? = nil, status: Int? = nil) {
        writer.beginObject()
        writer.member("type", "urn:sluice:problem:" + code.rawValue)
        writer.member("title", code.title)
        writer.member("status", Int64(status ?? code.status))
        writer.member("code", code.rawValue)
        writer.member("detail", detail)
        if let requestID { writer.member("request_id", requestID) }
        if let expected { writer.member("expected", expected) }
        if let snapshot { writer.member("snapshot", snapshot) }
        if let current {
            writer.name("current")
            writer.raw(current)
        }
        if !errors.isEmpty {
            writer.name("errors")
            writer.beginArray()
            for error in errors {
                writer.beginObject()
                writer.member("pointer", error.pointer)
                writer.member("rule", error.rule)
                writer.member("detail", error.detail)
                writer.endObject()
            }
            writer.endArray()
        }
        writer.endObject()
    }

    /// The problem object as JSON text.
    public var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

extension Problem {
    /// What a device is told that its user may not have beside the others.
    ///
    /// - Parameter pointer: to the device's id.
    public static func oneDeviceTooMany(limit: Int, pointer: String = "/device_id") -> Problem {
        let detail = "the user has \(limit) devices, and no more are taken in"
        return Problem(.validationFailed, pointer: pointer, rule: Rule.deviceLimit, detail)
    }

    /// A client id whose type nothing tells.
    ///
    /// - Parameters:
    ///   - name: what its client calls it.
    ///   - pointer: where in the request it stands; nil where there is none.
    static func ambiguous(_ name: String, _ types: some Sequence<String>, at pointer: String? = nil) -> Problem {
        let types = Set(types).sorted().joined(separator: "' and '")
        let detail = "\(name) names entities in '\(types)'; use the server id instead"
        guard let pointer else { return Problem(.referenceAmbiguous, detail) }
        return Problem(.referenceAmbiguous, pointer: pointer, rule: Rule.entityReference, detail)
    }
}
