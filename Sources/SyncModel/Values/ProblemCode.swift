/// The machine-readable code of a problem.
///
/// The `type` of a problem with this code is `urn:sluice:problem:CODE` (RFC 9457).
public enum ProblemCode: String, Sendable, Hashable, CaseIterable {
    // whole requests
    case invalidJSON = "invalid_json"
    case invalidRequest = "invalid_request"
    case unauthorized
    case organizationUnknown = "organization_unknown"
    case organizationSuspended = "organization_suspended"
    case userUnknown = "user_unknown"
    case userErased = "user_erased"
    case forbidden
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case notAcceptable = "not_acceptable"
    case unsupportedMediaType = "unsupported_media_type"
    case requestTimeout = "request_timeout"
    case sequenceGap = "sequence_gap"
    case statusTransitionMustBeValid = "status_transition_must_be_valid"
    case idSpaceIsImmutable = "id_space_is_immutable"
    case externalIDTaken = "external_id_taken"
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
    case upstreamAnswerUnusable = "upstream_answer_unusable"
    case maxAttemptsReached = "max_attempts_reached"
    case discarded

    public var status: Int {
        switch self {
        case .invalidJSON, .invalidRequest: 400
        case .unauthorized: 401
        case .organizationUnknown, .organizationSuspended, .userUnknown, .forbidden: 403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .notAcceptable: 406
        case .requestTimeout: 408
        case .sequenceGap, .statusTransitionMustBeValid, .idSpaceIsImmutable, .externalIDTaken, .idAlreadyUsed,
            .sequenceAlreadyUsed, .conflict, .discarded:
            409
        case .cursorExpired, .userErased: 410
        case .payloadTooLarge: 413
        case .unsupportedMediaType: 415
        case .validationFailed, .idempotencyKeyReused, .referenceAmbiguous, .upstreamRejected: 422
        case .maxAttemptsReached, .upstreamAnswerUnusable: 422
        case .dependencyRejected: 424
        case .rateLimited: 429
        case .internalError: 500
        case .overloaded, .storeUnavailable, .keysUnavailable: 503
        }
    }

    /// The title, which is the same for every problem with this code.
    public var title: String {
        switch self {
        case .invalidJSON: "The body is not valid JSON"
        case .invalidRequest: "The request is not valid"
        case .unauthorized: "A valid bearer token is required"
        case .organizationUnknown: "The organization is unknown"
        case .organizationSuspended: "The organization is suspended"
        case .userUnknown: "The user is unknown"
        case .userErased: "The user was erased"
        case .forbidden: "Not allowed"
        case .notFound: "Not found"
        case .methodNotAllowed: "The method is not allowed"
        case .notAcceptable: "No acceptable representation"
        case .unsupportedMediaType: "The media type is not supported"
        case .requestTimeout: "The request took too long to arrive"
        case .sequenceGap: "Earlier mutations of this device are missing"
        case .statusTransitionMustBeValid: "The mutation's status does not allow this"
        case .idSpaceIsImmutable: "The id space of this entity type is fixed"
        case .externalIDTaken: "The external id belongs to another organization"
        case .cursorExpired: "The cursor has expired"
        case .payloadTooLarge: "The request is too large"
        case .rateLimited: "Too many requests"
        case .overloaded: "The gateway is overloaded"
        case .storeUnavailable: "The store is not available"
        case .keysUnavailable: "Tokens cannot be verified yet"
        case .internalError: "An internal error occurred"
        case .validationFailed: "The content is not valid"
        case .idempotencyKeyReused: "The idempotency key was used with other content"
        case .idAlreadyUsed: "The id was used with another idempotency key"
        case .sequenceAlreadyUsed: "The sequence number was used before"
        case .dependencyRejected: "A mutation that this one depends on was rejected"
        case .referenceAmbiguous: "A client id exists in two entity types"
        case .conflict: "Another writer changed the entity"
        case .upstreamRejected: "The upstream rejected the mutation"
        case .upstreamAnswerUnusable: "The upstream accepted the mutation, but its response cannot be used"
        case .maxAttemptsReached: "The mutation is out of attempts"
        case .discarded: "The mutation was discarded"
        }
    }
}

/// The names of rules. Rules of docs/spec have the same names as there.
public enum Rule {
    /// The operation must be known, or be the HTTP verb of a known operation (specification 001 (docs/spec)).
    public static let operation = "operation_must_be_valid_verb"
    /// The endpoint must be a path that cannot leave the base URL (specification 001 (docs/spec)).
    public static let endpoint = "endpoint_must_be_relative_path"
    /// The payload must be JSON within the limits, and for the built-in store an object (specification 001
    /// (docs/spec)).
    public static let payload = "payload_must_be_valid_json"
    /// The sequence number must be above the device's watermark (specification 001 (docs/spec)).
    public static let sequence = "sequence_number_must_be_monotonic"
    /// A dependency must be an earlier mutation of this user, or earlier in the push (specification 001 (docs/spec)).
    public static let dependencies = "dependency_ids_must_exist_in_queue"
    /// The client id must be a UUID (specification 000 (docs/spec)).
    public static let clientID = "client_id_uuid_format"
    /// The entity type must be well-formed, and registered if the organization requires it (specification 000
    /// (docs/spec)).
    public static let entityType = "entity_type_valid_enum"
    /// A client id must be created only once in its entity type (specification 000 (docs/spec)).
    public static let uniqueClientID = "unique_client_id_per_entity_type"
    /// A member is missing or null.
    public static let required = "member_required"
    public static let unknownMember = "member_unknown"
    /// A member occurs twice.
    public static let duplicateMember = "member_duplicate"
    /// A member has another JSON type than required, is not allowed in this object, or is not one of the allowed
    /// values.
    public static let memberType = "member_type"
    /// A number, text or list is outside of its bounds.
    public static let range = "member_range"
    /// A value is not an order key.
    public static let orderKey = "order_key_format"
    /// A value is not a UUID.
    public static let uuid = "uuid_format"
    /// A value is not a valid permanent id.
    public static let serverID = "server_id_format"
    /// A value is not an RFC 3339 date-time.
    public static let timestamp = "timestamp_rfc3339"
    /// The user already has the maximum number of devices.
    public static let deviceLimit = "device_limit"
    /// A mutation has a header that is not permitted.
    public static let header = "header_not_allowed"
    /// No client created the entity, or the two ids do not belong to the same entity.
    public static let entityReference = "entity_reference_must_exist"
    /// A document refers to an entity that was deleted (product rule 24).
    public static let deletedTarget = "entity_reference_must_not_be_deleted"
    /// Other entities refer to the entity that would be deleted.
    public static let referredTo = "entity_must_not_be_referred_to"
    /// Users have their own data keys, but no master key is configured.
    public static let needsMasterKey = "master_key_required"
    /// The writer has no grant of the role `write`.
    public static let channelRole = "channel_role_must_be_write"
    /// There are more channels than an entity may be in, or than a user may hold.
    public static let channelLimit = "channel_limit"
    /// A text is not a valid template or channel name.
    public static let channelName = "channel_name"
    /// The owner was erased.
    public static let owner = "owner_must_not_be_erased"
}
