/// The limits of a push; each is a setting.
public struct IntakeLimits: Sendable, Hashable {
    /// `SLUICE_MAX_MUTATIONS`.
    public var mutations = 500
    /// `SLUICE_MAX_BODY_BYTES`.
    public var bodyBytes = 4_194_304
    /// `SLUICE_MAX_PAYLOAD_BYTES`.
    public var payloadBytes = 262_144
    /// Nesting of a payload.
    public var payloadDepth = 64
    /// Ids in `dependency_ids` of one mutation.
    public var dependencies = 500

    public init() {}
}
