/// What retention deletes or discards, in this order.
public enum RetentionKind: String, Sendable, Hashable, CaseIterable {
    /// Idempotency records: final mutations.
    case records
    /// Payloads and headers of younger ones, which shrink to idempotency records.
    case payloads
    /// Failed and conflicting mutations that no person settled: they are discarded.
    ///
    /// No mutation depends on them.
    case unsettled
    /// Records of refused entries.
    case rejections
    /// Tombstones of entities, with their creators' mappings.
    case tombstones
    /// Mappings that have no entity and were not used.
    case mappings
    /// Messages to webhooks.
    case deliveries
    /// Acts of operators, of all organizations together.
    case audit

    /// The moment before which things of this kind are too old.
    public func cutoff(_ cutoffs: RetentionCutoffs) -> Timestamp {
        switch self {
        case .payloads: cutoffs.payloads
        case .audit: cutoffs.audit
        default: cutoffs.everything
        }
    }
}
