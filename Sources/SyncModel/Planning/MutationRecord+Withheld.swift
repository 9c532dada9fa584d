extension MutationRecord {
    /// The record without what its user and the upstream wrote: the answer's body and entity tag, the entity that
    /// stands in a conflict's way, the address that a redirect names.
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
            error: error.flatMap(StoredProblem.withheld),
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
