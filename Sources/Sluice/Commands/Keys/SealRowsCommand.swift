import ArgumentParser
import Foundation
import JSONText
import SyncModel
import SyncStore

/// Seals rows that are stored in the plain or under older data keys.
struct SealRowsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "seal",
        abstract: "Seal what is stored in the plain or under an older data key.",
        discussion: """
            EXAMPLES
              sluice keys seal                       all organizations
              sluice keys seal --organization 0192f0c1-2345-7abc-8def-0123456789ab

            Works row by row while gateways run, each row under the lock that every writer
            of it takes, and drops older data keys at an organization's end. Begins a
            minute after the organization's newest data key was made, when every gateway
            seals under it. Run again, it only looks at what is sealed already.
            """
    )

    @Option(help: "Only this organization, by its UUID.", transform: uuidArgument)
    var organization: UUID?

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let json = options.json
        let isDone = try await options.withStore { store, _ throws(Problem) -> Bool in
            if let organization { return try await Self.seal(organization, store.sealing, json: json) }
            let organizations = try await Self.organizations(store.administration)
            for organization in organizations { _ = try await store.sealing.prepare(organization) }
            var isDone = true
            for organization in organizations {
                do throws(Problem) {
                    // one that was purged meanwhile is no trouble
                    _ = try await Self.seal(organization, store.sealing, json: json)
                } catch {
                    if error.code == .storeUnavailable, !error.isLocked { throw error }
                    Terminal.complain("\(organization.lowercased): \(error.detail)")
                    isDone = false
                }
            }
            return isDone
        }
        if let organization, !isDone { throw AdministrationOptions.unknown(organization) }
        if !isDone { throw ExitCode.failure }
    }

    /// False where there is no such organization.
    private static func seal(_ organization: UUID, _ sealing: Sealing, json: Bool) async throws(Problem) -> Bool {
        let rows = try await sealing.sealRows(of: organization) { rows in
            if !json, rows.examined % 50_000 < 500 {
                Terminal.complain("\(organization.lowercased): \(rows.examined) rows looked at, \(rows.sealed) sealed")
            }
        }
        guard let rows else { return false }
        let body = AdministrationOptions.body {
            $0.member("organization_id", organization)
            $0.member("examined", Int64(rows.examined))
            $0.member("sealed", Int64(rows.sealed))
            $0.member("dropped_keys", Int64(rows.droppedKeys))
        }
        let words =
            "\(organization.lowercased): \(rows.examined) rows looked at, \(rows.sealed) sealed, "
            + "\(rows.droppedKeys) older data keys dropped"
        Terminal.say(json ? String(decoding: body, as: UTF8.self) : words)
        return true
    }

    private static func organizations(_ administration: Administration) async throws(Problem) -> [UUID] {
        var ids: [UUID] = []
        var cursor: String?
        repeat {
            let page = try await administration.organizations(limit: 1_000, cursor: cursor)
            guard let root = try? JSONTree(parsing: page).root else { break }
            for organization in root["organizations"]?.elements.map(Array.init) ?? [] {
                if let id = organization["id"]?.string.flatMap(UUID.init(uuidString:)) { ids.append(id) }
            }
            cursor = root["next"]?.string
        } while cursor != nil
        return ids
    }
}
