import Postgres
package import SyncModel
import SyncStore

/// Checks whether the database of a source is as its settings need it, without reading its slot.
package struct SourceInspector: Sendable {
    let connector: ReplicationConnector
    let now: TimeSource

    package init(connector: ReplicationConnector, now: @escaping TimeSource) {
        self.connector = connector
        self.now = now
    }

    /// - Returns: what should be corrected although the source works; nil if nothing.
    /// - Throws: the defect, with an instruction. A source that misses changes has one until it is run from null.
    package func inspect(_ source: SourceStore.Followed) async throws(SourceFailure) -> String? {
        guard let secret = source.secret else { throw SourceFailure("The database's URI cannot be decrypted.") }
        let uri: DatabaseURI
        do throws(DatabaseURI.Malformed) {
            uri = try DatabaseURI(secret)
        } catch {
            throw SourceFailure(SourceStoreMessages.sentence(error.reason))
        }
        let database = try await connector.configuration(uri)
        let advice = ReplicationAdvice(settings: source.settings)
        do {
            let connection = try await Connection.open(database)
            defer { connection.close() }
            let warning = try await SlotInspection(connection: connection, settings: source.settings).examine(now: now)
            if let gap = source.gap { throw advice.gap(gap) }
            return warning
        } catch let failure as SourceFailure {
            throw failure
        } catch let error as PostgresError {
            throw advice.failure(error)
        } catch {
            throw SourceFailure("The database cannot be checked: \(error)", isFatal: false)
        }
    }
}
