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

    /// Reads ``UpstreamSettingsRow``, and behind it when they changed.
    init(_ row: inout RowReader, _ seal: Seal) throws {
        settings = try UpstreamSettingsRow.read(&row, seal)
        updatedAt = try row.moment("updated_at")
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
