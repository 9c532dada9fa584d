package import SyncModel
package import SyncStore

extension SourceKey: WorkItem {}

/// A worker's hold on a source.
package struct ClaimedSource: Sendable {
    package let key: SourceKey
    package let settings: SourceSettings
    /// Opened.
    package let secret: String?
    /// How far workers are, as the last of them wrote it: a JSON object.
    ///
    /// Nil: nothing was read yet, or all is to be read again.
    package let state: [UInt8]?
    /// What failed in a row before.
    package let failureCount: Int32
    package let lastSuccessAt: Timestamp?
    package let leasedUntil: Timestamp
    let token: Int64

    /// Who brings its events, for ``IngestCommit/submit(_:from:)``.
    package var bearer: IngestBearer { IngestBearer(key) }
}

/// The result of a worker's lease of a source.
package enum SourceOutcome: Sendable, Hashable {
    /// - Parameters:
    ///   - state: how far it is; nil: as it was.
    ///   - hasEvents: whether there was something new.
    ///   - warning: what an operator should know all the same; shown where errors are.
    case succeeded(state: [UInt8]?, hasEvents: Bool, nextRunAt: Timestamp, warning: String? = nil)
    /// - Parameters:
    ///   - error: why, in a sentence, with nothing secret in it.
    ///   - state: where workers continue; nil: unchanged.
    case failed(error: String, retryAt: Timestamp, state: [UInt8]? = nil)
    /// Ended without success or failure, for example because the gateway stops.
    case released(nextRunAt: Timestamp)
}

extension IngestBearer {
    /// A configured source: it has no token whose use were to be noted.
    package init(_ key: SourceKey) {
        self.init(organization: key.organization, tokenID: .least, source: key.name, isFirstUse: false)
    }
}
