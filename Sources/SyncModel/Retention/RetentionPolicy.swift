public import JSONText

/// The storage periods of data (product rule 15).
public struct RetentionPolicy: Sendable, Hashable {
    /// The number of days for which payloads of final mutations are kept (`SLUICE_RETENTION_SUCCEEDED_DAYS`).
    ///
    /// The days are counted from `synced_at`. See specification 001 (docs/spec), `succeeded_entries_pruned_after_sync`.
    public var payloadDays: Double
    /// The number of days for which all other data with a storage period are kept (`SLUICE_RETENTION_DAYS`).
    ///
    /// See specification 001 (docs/spec), `delete_after_30days`.
    public var days: Double
    /// The number of days for which entries of the audit log are kept (`SLUICE_RETENTION_AUDIT_DAYS`).
    public var auditDays: Double

    /// Creates a policy. Payloads never expire later than their records.
    public init(payloadDays: Double = 7, days: Double = 30, auditDays: Double = 365) {
        self.payloadDays = min(payloadDays, days)
        self.days = days
        self.auditDays = auditDays
    }

    public func cutoffs(at now: Timestamp) -> RetentionCutoffs {
        RetentionCutoffs(
            payloads: now.adding(seconds: -payloadDays * 86_400),
            everything: now.adding(seconds: -days * 86_400),
            audit: now.adding(seconds: -auditDays * 86_400),
            now: now
        )
    }
}

/// The kinds of data that retention deletes or discards, in the order of processing.
public enum RetentionKind: String, Sendable, Hashable, CaseIterable {
    /// Idempotency records, which are the rows of final mutations.
    case records
    /// Payloads and headers of more recent final mutations. Their idempotency records remain.
    case payloads
    /// Mutations that failed or are in conflict, if no person settled them and no mutation depends on them. Retention
    /// discards these mutations.
    case unsettled
    /// Records of refused entries.
    case rejections
    /// Tombstones of entities, with the mappings of the users who created these entities.
    case tombstones
    /// Ends of grants, and of entities' stays in channels.
    case channels
    /// Mappings that have no entity and were not used during the storage period.
    case mappings
    /// Deliveries to webhooks.
    case deliveries
    /// Entries of the audit log, for all organizations together.
    case audit

    /// The time before which data of this kind have expired.
    public func cutoff(_ cutoffs: RetentionCutoffs) -> Timestamp {
        switch self {
        case .payloads: cutoffs.payloads
        case .audit: cutoffs.audit
        default: cutoffs.everything
        }
    }
}

/// The age limits of one run of retention, as points in time.
public struct RetentionCutoffs: Sendable, Hashable {
    /// The payloads of final mutations are deleted if `synced_at` is before this time.
    public let payloads: Timestamp
    /// All other data are deleted if they were last used before this time.
    public let everything: Timestamp
    /// Entries of the audit log from before this time are deleted.
    public let audit: Timestamp
    /// The time of the run.
    public let now: Timestamp
}

/// Controls the speed of retention, which works in short batches with pauses between them.
///
/// The pauses become longer when other work needs the database.
///
/// A batch locks the lanes of its rows, and a push to one of these lanes waits for the batch. Therefore the number of
/// rows is adapted until a batch takes about ``aim``. Under load, the pauses take nine tenths of the time, and
/// otherwise half of the time.
public struct RetentionPace: Sendable, Hashable {
    /// The intended duration of a batch, in seconds.
    public static let aim = 0.02
    /// The minimum and maximum number of rows of a batch.
    public static let limits = 50...2_000
    /// The shortest and the longest pause, in seconds.
    static let pauses = 0.001...5.0

    /// The maximum number of rows of the next batch.
    public private(set) var limit = 200
    /// The shortest time per row so far, in seconds.
    ///
    /// The value increases slowly with each batch, because rows differ.
    private var best: Double?

    public init() {}

    /// Records the duration of a batch.
    ///
    /// - Parameters:
    ///   - seconds: the duration of the batch.
    ///   - rows: the number of rows in the batch.
    ///   - waiting: the number of pushes that waited for this process's committers when the batch ended.
    /// - Returns: the duration of the pause, in seconds.
    public mutating func pause(after seconds: Double, rows: Int, waiting: Int) -> Double {
        let isBusy = waiting > 0 || isSlow(seconds, rows)
        if seconds > Self.aim * 1.5 {
            limit = max(Self.limits.lowerBound, limit / 2)
        } else if seconds < Self.aim * 0.75, rows >= limit {
            limit = min(Self.limits.upperBound, limit * 5 / 4)
        }
        let pause = seconds * (isBusy ? 9 : 1)
        return min(max(pause, Self.pauses.lowerBound), Self.pauses.upperBound)
    }

    /// Whether the time per row was more than three times the shortest time. This means that other work uses the
    /// database.
    private mutating func isSlow(_ seconds: Double, _ rows: Int) -> Bool {
        // the time of a few rows shows nothing, because the commit takes most of this time
        guard rows >= Self.limits.lowerBound else { return false }
        let each = seconds / Double(rows)
        let known = best.map { min($0 * 1.01, each) } ?? each
        best = min(known, each)
        return each > 3 * known
    }
}

/// The number of items of each kind that retention has processed.
public struct RetentionReport: Sendable, Hashable {
    private var counts: [RetentionKind: Int] = [:]

    public init() {}

    /// The number of processed items of a kind.
    public subscript(kind: RetentionKind) -> Int {
        get { counts[kind] ?? 0 }
        set { counts[kind] = newValue }
    }

    public var total: Int { counts.values.reduce(0, +) }

    /// Writes an object with a member for every kind.
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        for kind in RetentionKind.allCases {
            writer.name(kind.rawValue)
            writer.int(self[kind])
        }
        writer.endObject()
    }

    public var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}
