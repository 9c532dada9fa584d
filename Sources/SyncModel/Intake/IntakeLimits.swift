/// What a push may hold at most; each is a setting.
package struct IntakeLimits: Sendable, Hashable {
    /// `SLUICE_MAX_MUTATIONS`.
    package var mutations = 500
    /// `SLUICE_MAX_BODY_BYTES`.
    package var bodyBytes = 4_194_304
    /// `SLUICE_MAX_PAYLOAD_BYTES`.
    package var payloadBytes = 262_144
    /// Nesting of a payload.
    package var payloadDepth = 64
    /// Ids in `dependency_ids` of one mutation.
    package var dependencies = 500

    /// The defaults.
    package init() {}
}
