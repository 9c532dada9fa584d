import JSONText
package import SyncModel
package import SyncStore

/// Changes an organization's upstream, or describes a new one.
package struct UpstreamUpdate: Sendable {
    /// Normalized; nil: unchanged.
    package var baseURL: String?
    package var credential: Change<UpstreamCredential?> = .keep
    package var timeoutSeconds: Change<Int> = .keep
    package var maximumConcurrency: Change<Int> = .keep
    package var idPointer: Change<String> = .keep
    package var headers: Change<[ByteExactString: String]> = .keep
    package var allowedHeaders: Change<[String]> = .keep
    package var eraseEndpoint: Change<String?> = .keep
    package var sendsWeakETags: Change<Bool> = .keep

    package init(baseURL: String? = nil) {
        self.baseURL = baseURL
    }

    /// Returns the settings after the change; `current` are those before, or nil if there is no upstream yet.
    func applied(to current: UpstreamSettings?) throws(Problem) -> UpstreamSettings {
        guard let baseURL = baseURL ?? current?.baseURL else {
            let detail = "base_url is required: the organization has no upstream yet"
            throw Problem(.validationFailed, pointer: "/base_url", rule: Rule.required, detail)
        }
        let initial = UpstreamSettings(baseURL: baseURL)
        var settings = current ?? initial
        settings.baseURL = baseURL
        credential.apply(to: &settings.credential, default: initial.credential)
        timeoutSeconds.apply(to: &settings.timeoutSeconds, default: initial.timeoutSeconds)
        maximumConcurrency.apply(to: &settings.maximumConcurrency, default: initial.maximumConcurrency)
        idPointer.apply(to: &settings.idPointer, default: initial.idPointer)
        headers.apply(to: &settings.headers, default: initial.headers)
        eraseEndpoint.apply(to: &settings.eraseEndpoint, default: initial.eraseEndpoint)
        sendsWeakETags.apply(to: &settings.sendsWeakETags, default: initial.sendsWeakETags)
        allowedHeaders.apply(to: &settings.allowedHeaders, default: initial.allowedHeaders)
        if case .header(let name, _) = settings.credential { try Self.checkUnique(name, in: settings) }
        return settings
    }

    /// Rejects other uses of the header that carries the credential, in any spelling.
    ///
    /// Neither the operator's other settings nor a mutation may set it.
    private static func checkUnique(_ credential: String, in settings: UpstreamSettings) throws(Problem) {
        let folded = UpstreamRequest.foldedHeader(credential)
        let isIt = { (name: String) in UpstreamRequest.foldedHeader(name) == folded }
        let detail = "\(credential) contains the credential; set it in one place only"
        if let name = settings.headers.keys.lazy.map(\.string).first(where: isIt) {
            let pointer = JSONPointer("/headers").appending(member: name).text
            throw Problem(.validationFailed, pointer: pointer, rule: Rule.header, detail)
        }
        if settings.allowedHeaders.contains(where: isIt) {
            throw Problem(.validationFailed, pointer: "/allowed_headers", rule: Rule.header, detail)
        }
    }
}
