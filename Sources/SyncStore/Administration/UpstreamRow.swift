import JSONText
import Postgres
import SyncModel

/// An upstream as operators see it: of a credential its kind, never the secret.
struct UpstreamRow {
    private let settings: UpstreamSettings
    private let updatedAt: Timestamp

    init(_ settings: UpstreamSettings, updatedAt: Timestamp) {
        self.settings = settings
        self.updatedAt = updatedAt
    }

    /// Nil when there is no row.
    init?(_ rows: Rows, _ seal: Seal) throws {
        guard let settings = try Catalog.upstream(rows, seal) else { return nil }
        self.settings = settings
        updatedAt = Timestamp(microseconds: try rows.timestamp(0, 7))
    }

    func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("base_url", settings.baseURL)
        writer.name("credential")
        writeCredential(to: &writer)
        writer.member("timeout_seconds", settings.timeoutSeconds)
        writer.member("max_concurrency", settings.maximumConcurrency)
        writer.member("id_pointer", settings.idPointer)
        writer.member("headers", raw: settings.storedHeaders)
        writer.name("allowed_headers")
        writer.beginArray()
        for name in settings.allowedHeaders { writer.string(name) }
        writer.endArray()
        writer.member("updated_at", updatedAt.rfc3339)
        writer.endObject()
        return writer.bytes
    }

    private func writeCredential(to writer: inout JSONWriter) {
        switch settings.credential {
        case nil: writer.null()
        case .signed: writer.string("signed")
        case .bearer:
            writer.beginObject()
            writer.member("bearer", true)
            writer.endObject()
        case .header(let name, _):
            writer.beginObject()
            writer.member("header", name)
            writer.endObject()
        }
    }
}
