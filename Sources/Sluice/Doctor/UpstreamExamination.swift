import CommandSupport
import Postgres
import SyncUpstream

/// Checks whether the organizations' upstreams respond. The requests contain no credential, so any response is
/// sufficient.
struct UpstreamExamination {
    /// The maximum number of upstreams that are checked.
    static let maximum = 50
    /// The number of concurrent checks.
    private static let atOnce = 8

    /// A server, and the number of organizations that have it as their upstream.
    struct Address: Sendable {
        let baseURL: String
        let organizations: Int64
    }

    let reader: HTTPReader

    /// Returns the upstreams of active organizations: at most ``maximum``, or one more to show that there are more.
    static func addresses(on connection: Connection) async throws -> [Address] {
        let rows = try await connection.run(Query(list))
        return try (0..<rows.count).map {
            Address(baseURL: try rows.read($0, 0), organizations: try rows.read($0, 1))
        }
    }

    func diagnoses(of addresses: [Address]) async -> [Diagnosis] {
        if addresses.isEmpty { return [.ok("upstreams", "none")] }
        let looked = Array(addresses.prefix(Self.maximum))
        var found: [Int: Diagnosis] = [:]
        await withTaskGroup(of: (Int, Diagnosis).self) { group in
            for (index, address) in looked.enumerated() {
                if index >= Self.atOnce, let (index, diagnosis) = await group.next() { found[index] = diagnosis }
                group.addTask { (index, await diagnosis(of: address)) }
            }
            for await (index, diagnosis) in group { found[index] = diagnosis }
        }
        var diagnoses = looked.indices.compactMap { found[$0] }
        if addresses.count > looked.count {
            let finding = "more than \(Self.maximum) upstreams exist; the others were not checked"
            let advice = "See sluice_upstream_attempts_total and sluice_upstream_circuits_open in /metrics."
            diagnoses.append(.warning("upstreams", finding, advice))
        }
        return diagnoses
    }

    private func diagnosis(of address: Address) async -> Diagnosis {
        let subject = "upstream \(address.baseURL)"
        let whose = address.organizations == 1 ? "1 organization" : "\(address.organizations) organizations"
        switch await reader.probe(address.baseURL) {
        case .success(let status):
            return .ok(subject, "responds (status \(status)); used by \(whose)")
        case .failure(let failure):
            let advice = "Mutations wait and are retried. Check the upstream, or correct its settings with /admin."
            return .warning(subject, "does not respond: \(failure.text); used by \(whose)", advice)
        }
    }

    /// Reads the upstreams of all active organizations. This is permitted because the operator of the gateway runs the
    /// check. Credentials are not read.
    private static let list = Statement(
        "doctor_upstreams",
        """
        SELECT u.base_url, count(*) FROM upstreams u JOIN organizations o ON o.id = u.organization_id
        WHERE o.status = 'active' GROUP BY u.base_url ORDER BY u.base_url LIMIT 51
        """
    )
}
