package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

extension UpstreamRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("base_url", settings.baseURL)
        // the credential's kind, never the secret
        writer.name("credential")
        switch settings.credential {
        case nil: writer.null()
        case .signed: writer.string("signed")
        case .bearer: writer.object { $0.member("bearer", true) }
        case .header(let name, _): writer.object { $0.member("header", name) }
        }
        writer.member("timeout_seconds", settings.timeoutSeconds)
        writer.member("max_concurrency", settings.maximumConcurrency)
        writer.member("id_pointer", settings.idPointer)
        writer.member("headers", raw: settings.storedHeaders)
        writer.member("allowed_headers", settings.allowedHeaders)
        writer.member("erase_endpoint", settings.eraseEndpoint)
        writer.member("send_weak_etags", settings.sendsWeakETags)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}
