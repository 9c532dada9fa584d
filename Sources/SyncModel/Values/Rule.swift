/// Names of rules; those in the seeds are spelled as there.
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
    /// Seed 000: well-formed, and registered where the organization requires that.
    public static let entityType = "entity_type_valid_enum"
    /// Seed 000: created once.
    public static let uniqueClientID = "unique_client_id_per_entity_type"
    /// A member is missing or null.
    public static let required = "member_required"
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
    /// The user has as many devices as registration may create.
    public static let deviceLimit = "device_limit"
    /// A header that a mutation may not carry.
    public static let header = "header_not_allowed"
    /// An entity that no client created, or two names that do not agree.
    public static let entityReference = "entity_reference_must_exist"
    /// Users' own keys without a master key.
    public static let needsMasterKey = "master_key_required"
    /// A user who was erased.
    public static let owner = "owner_must_not_be_erased"
}
