import JSONText

extension MutationRecord {
    /// The record without what its user and the upstream wrote: the answer's body and entity tag, and the entity that
    /// stands in a conflict's way.
    public var withheld: MutationRecord {
        MutationRecord(
            id: id,
            idempotencyKey: idempotencyKey,
            deviceID: deviceID,
            sequenceNumber: sequenceNumber,
            position: position,
            operation: operation,
            entity: entity,
            status: status,
            revision: revision,
            version: version,
            etag: nil,
            attemptCount: attemptCount,
            nextRetryAt: nextRetryAt,
            dependsOn: dependsOn,
            resolution: resolution,
            responseStatus: responseStatus,
            responseBody: nil,
            error: error.map(Self.withoutEntity),
            lastError: nil,
            fingerprint: fingerprint,
            acceptedAt: acceptedAt,
            syncedAt: syncedAt,
            unreadable: unreadable,
            isWithheld: true
        )
    }

    /// A stored problem without the conflicting entity.
    private static func withoutEntity(_ problem: [UInt8]) -> [UInt8] {
        guard let members = try? JSONTree(parsing: problem).root.members else { return problem }
        return JSONWriter.object { writer in
            for (name, value) in members where !name.equals("current") {
                writer.name(name.string)
                writer.value(value)
            }
        }
    }
}
