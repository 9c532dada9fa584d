import JSONText
package import Postgres
package import SyncModel

/// Reads an organization's ``UpstreamSettings``.
package enum UpstreamSettingsRow {
    /// Columns of `upstreams`.
    package static let list = """
        base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers, erase_endpoint,
            send_weak_etags
        """

    /// Reads the columns of ``list``, unsealed.
    package static func read(_ row: inout RowReader, _ seal: Seal) throws -> UpstreamSettings {
        let baseURL = try row.string("base_url")
        let credential = try seal.open(json: row.optionalBytes("credential"), as: .upstream(.credential))
        var settings = UpstreamSettings(
            baseURL: baseURL,
            credential: try credential.flatMap { UpstreamCredential(stored: try JSONTree(parsing: $0).root) },
            timeoutSeconds: Int(try row.int16("timeout_seconds")),
            maximumConcurrency: Int(try row.int16("max_concurrency")),
            idPointer: try row.string("id_pointer"),
            headers: try headers(row.bytes("headers"), seal),
            allowedHeaders: try row.strings("allowed_headers"),
            eraseEndpoint: try row.optionalString("erase_endpoint")
        )
        settings.sendsWeakETags = try row.bool("send_weak_etags")
        return settings
    }

    private static func headers(_ stored: [UInt8], _ seal: Seal) throws -> [ByteExactString: String] {
        let opened = try seal.open(json: stored, as: .upstream(.headers)) ?? []
        return UpstreamSettings.headers(stored: try JSONTree(parsing: opened).root)
    }
}
