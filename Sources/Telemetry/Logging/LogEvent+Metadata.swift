import Logging

extension LogEvent {
    /// All metadata of a line, sorted by key.
    ///
    /// The call's values win over the logger's, which win over the provider's. An error passed as such is under
    /// ``LogKeys/error``.
    func metadata(
        over loggers: Logger.Metadata,
        provider: Logger.MetadataProvider?
    ) -> [(key: String, value: Logger.MetadataValue)] {
        var merged = provider?.get() ?? [:]
        merged.merge(loggers) { $1 }
        if let error { merged[LogKeys.error] = .string("\(error)") }
        if let metadata { merged.merge(metadata) { $1 } }
        return merged.sorted { $0.key < $1.key }
    }
}
