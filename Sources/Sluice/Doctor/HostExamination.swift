import CommandSupport
import SyncHTTP
import SyncUpstream

/// Checks that need no database: keys, listeners, limits of the process.
struct HostExamination {
    let settings: Settings
    let reader: HTTPReader

    func diagnoses() async -> [Diagnosis] {
        let warnings = settings.warnings.map { Diagnosis.warning("configuration", $0, "Correct it or remove it.") }
        let keys = await KeyExamination(settings: settings, reader: reader).diagnoses()
        return [.ok("configuration", "valid")] + warnings + keys + [
            listener(settings.publicAddress, .publicAddress),
            listener(settings.operationsAddress, .operationsAddress),
            openFiles(), operatorToken(),
        ] + (await traceReceiver())
    }

    /// Reports whether the receiver of traces responds. Any response is sufficient: the request contains no spans, so a
    /// receiver may refuse it.
    private func traceReceiver() async -> [Diagnosis] {
        guard let url = settings.traceReceiver else { return [] }
        switch await reader.probe(url + "/v1/traces") {
        case .success: return [.ok("traces", "\(url) responds")]
        case .failure(let failure):
            let advice =
                "Correct \(Setting.traceReceiver.variable). Spans are dropped while the receiver is unavailable."
            return [.warning("traces", "\(url) does not respond: \(failure.text)", advice)]
        }
    }

    private func listener(_ address: ListenAddress, _ setting: Setting) -> Diagnosis {
        let subject = "listener \(address)"
        switch PortProbe.check(at: address) {
        case .free: return .ok(subject, "free")
        case .taken:
            let advice =
                "If this gateway is running, ignore this; otherwise set \(setting.variable) to another address."
            return .warning(subject, "in use", advice)
        case .unusable(let reason):
            let advice = "Set \(setting.variable) to an address of this machine."
            return .failed(subject, "cannot be used: \(reason)", advice)
        }
    }

    private func openFiles() -> Diagnosis {
        let needed = settings.filesNeeded
        guard FileLimit.maximum < needed else { return .ok("open files", "up to \(FileLimit.maximum)") }
        let advice = "Raise the hard limit (ulimit -Hn, LimitNOFILE=), or lower \(Setting.maxConnections.variable)."
        return .warning("open files", "up to \(FileLimit.maximum), but \(needed) may be needed", advice)
    }

    private func operatorToken() -> Diagnosis {
        if settings.operatorTokens != nil { return .ok("operator token", "set; /admin is on") }
        return .ok("operator token", "not set; /admin is off")
    }
}
