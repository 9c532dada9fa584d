extension MutationRecord {
    /// The record without what its user and the upstream wrote.
    ///
    /// It lacks the response's body and entity tag, the conflicting entity, and the address of a redirect.
    public var redacted: MutationRecord {
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
            error: error.flatMap(StoredProblem.redacted),
            lastError: nil,
            fingerprint: fingerprint,
            acceptedAt: acceptedAt,
            syncedAt: syncedAt,
            unreadable: unreadable,
            omitted: omitted,
            isWithheld: true
        )
    }
}
