import CommandSupport
import JSONText
import SyncDispatch
import SyncModel
import SyncStore

/// Checks the server, publication, tables and slot of each database that a source of kind `postgres` follows.
struct SourceExamination {
    /// The maximum number of sources that are checked.
    static let maximum = 50
    /// The number of concurrent checks.
    private static let atOnce = 8

    let inspector: SourceInspector

    static func diagnoses(_ settings: Settings) async -> [Diagnosis] {
        let store = settings.commandStore()
        let found: [SourceStore.Followed]
        do throws(Problem) {
            found = try await store.sources.followed(limit: maximum + 1)
        } catch {
            await store.close()
            return [.failed("sources", "cannot be listed: \(error.detail)", "Try again.")]
        }
        await store.close()
        let inspector = SourceInspector(connector: .gateway(settings.webhookAddresses), now: SystemClock.now)
        return await SourceExamination(inspector: inspector).diagnoses(of: found)
    }

    private func diagnoses(of sources: [SourceStore.Followed]) async -> [Diagnosis] {
        if sources.isEmpty { return [.ok("sources", "no source follows a database")] }
        let checked = Array(sources.prefix(Self.maximum))
        var found: [Int: Diagnosis] = [:]
        await withTaskGroup(of: (Int, Diagnosis).self) { group in
            for (index, source) in checked.enumerated() {
                if index >= Self.atOnce, let (index, diagnosis) = await group.next() { found[index] = diagnosis }
                group.addTask { (index, await diagnosis(of: source)) }
            }
            for await (index, diagnosis) in group { found[index] = diagnosis }
        }
        var diagnoses = checked.indices.compactMap { found[$0] }
        if sources.count > checked.count {
            let finding = "more than \(Self.maximum) sources follow databases; the others were not checked"
            diagnoses.append(.warning("sources", finding, "See sluice_sources{kind,state} in /metrics."))
        }
        return diagnoses
    }

    private func diagnosis(of source: SourceStore.Followed) async -> Diagnosis {
        let subject = "source \(source.key.name) of \(source.key.organization.lowercased)"
        let arguments = "\(source.key.organization.lowercased) \(source.key.name)"
        let advice = "Correct the database, or the settings: sluice sources show \(arguments)"
        do throws(SourceFailure) {
            guard let warning = try await inspector.inspect(source) else {
                return .ok(subject, "its database fits the settings")
            }
            return .warning(subject, warning, advice)
        } catch {
            return .failed(subject, error.userMessage, advice)
        }
    }
}
