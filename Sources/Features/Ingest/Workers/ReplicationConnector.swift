package import Postgres
package import SyncModel
import SyncStore
import SyncUpstream

/// Prepares connections to organizations' databases. It resolves the host, and refuses addresses that are not allowed.
package struct ReplicationConnector: Sendable {
    /// Returns the configuration of a connection.
    ///
    /// - Throws: the reason why the gateway does not connect.
    package let configuration: @Sendable (DatabaseURI) async throws(SourceFailure) -> ConnectionConfiguration

    /// - Parameter configuration: returns the configuration of a connection, or throws the reason why the gateway does
    ///   not connect.
    package init(
        configuration: @escaping @Sendable (DatabaseURI) async throws(SourceFailure) -> ConnectionConfiguration
    ) {
        self.configuration = configuration
    }

    /// - Parameters:
    ///   - policy: the addresses to which connections are allowed.
    ///   - authorities: the path of the file with the trusted certificate authorities.
    ///   - resolve: returns the addresses of a host name.
    package init(
        policy: AddressPolicy,
        authorities: String,
        resolve: @escaping @Sendable (String) async -> [IPAddress]
    ) {
        self.init { uri async throws(SourceFailure) in
            let addresses = await resolve(uri.host)
            guard let first = addresses.first else {
                throw SourceFailure("The database's host '\(uri.host)' has no address.", isFatal: false)
            }
            // the connection uses the address that was checked, even if the name later resolves to another address
            guard let address = addresses.first(where: { uri.problem($0, policy) == nil }) else {
                throw SourceFailure(
                    "Connections to host '\(uri.host)' are not allowed: \(uri.problem(first, policy) ?? "")."
                )
            }
            return ConnectionConfiguration(
                uri: uri.keywords(address: address, authorities: authorities),
                connectTimeout: .seconds(10),
                statementTimeout: .seconds(60)
            )
        }
    }
}

extension ReplicationConnector {
    /// The gateway's connector, which trusts the system's certificate authorities.
    package static func gateway(_ policy: AddressPolicy) -> ReplicationConnector {
        ReplicationConnector(
            policy: policy,
            authorities: "/etc/ssl/certs/ca-certificates.crt",
            resolve: HostAddresses.of
        )
    }
}

/// Checks whether a source's database fits the source's settings. The slot is not read.
package struct SourceInspector: Sendable {
    let connector: ReplicationConnector
    let now: TimeSource

    package init(connector: ReplicationConnector, now: @escaping TimeSource) {
        self.connector = connector
        self.now = now
    }

    /// - Returns: a defect that should be corrected although the source works; nil if there is no such defect.
    /// - Throws: the defect that prevents replication, and how to correct it. If the log lacks changes, this is a
    ///   defect until the source is run from the beginning.
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
