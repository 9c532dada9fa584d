import ArgumentParser
import Foundation
import JSONText
import SyncModel
import SyncStore
import Synchronization

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

            Says on standard error every few seconds how far it is. A value that cannot be
            opened (it was damaged, or is under a key that is not there) is left as it is
            and named, everything else is sealed, and the command ends with 1.
            """
    )

    @Option(help: "Only this organization, by its UUID.", transform: uuidArgument)
    var organization: UUID?

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let json = options.json
        let outcome = try await options.withStore { store, _ throws(Problem) -> Outcome in
            if let organization { return try await Self.seal(organization, "", store.keyRotation, json: json) }
            let organizations = try await Self.organizations(store.administration)
            for organization in organizations { _ = try await store.keyRotation.prepare(organization) }
            var outcome = Outcome.sealed
            for (index, organization) in organizations.enumerated() {
                let place = " (\(index + 1) of \(organizations.count))"
                do throws(Problem) {
                    // one that was purged meanwhile is no trouble
                    let one = try await Self.seal(organization, place, store.keyRotation, json: json)
                    if one == .incomplete { outcome = .incomplete }
                } catch {
                    if [.storeUnavailable, .overloaded].contains(error.code), !error.isLocked { throw error }
                    Terminal.complain("\(organization.lowercased): \(error.detail)")
                    outcome = .incomplete
                }
            }
            return outcome
        }
        switch outcome {
        case .sealed: return
        case .unknown: if let organization { throw AdministrationOptions.unknown(organization) }
        case .incomplete: throw ExitCode.failure
        }
    }

    private enum Outcome: Sendable {
        case sealed
        /// There is no such organization.
        case unknown
        /// Something is left in the plain or under an older key.
        case incomplete
    }

    /// Lines of progress, a few seconds apart.
    private final class Progress: Sendable {
        private let last = Mutex(ContinuousClock.now)

        func isDue() -> Bool {
            last.withLock { last in
                guard ContinuousClock.now - last >= .seconds(3) else { return false }
                last = .now
                return true
            }
        }
    }

    private static func seal(
        _ organization: UUID,
        _ place: String,
        _ keyRotation: KeyRotation,
        json: Bool
    ) async throws(Problem) -> Outcome {
        let name = organization.lowercased
        let progress = Progress()
        let rows = try await keyRotation.sealRows(
            of: organization,
            onWait: { seconds in
                let words = "waits \(Int(seconds.rounded(.up))) s, until every gateway seals under its newest data key"
                if !json { Terminal.complain("\(name)\(place): \(words)") }
            },
            { rows in
                guard !json, progress.isDue() else { return }
                Terminal.complain("\(name)\(place): \(rows.examined) rows looked at, \(rows.sealed) sealed so far")
            }
        )
        guard let rows else { return .unknown }
        for value in rows.unreadableValues { Terminal.complain("\(name): left as it is: \(value)") }
        let body = AdministrationOptions.body {
            $0.member("organization_id", organization)
            $0.member("examined", Int64(rows.examined))
            $0.member("sealed", Int64(rows.sealed))
            $0.member("unreadable", Int64(rows.unreadable))
            $0.member("dropped_keys", Int64(rows.droppedKeys))
        }
        let unreadable = rows.unreadable > 0 ? "\(rows.unreadable) values that cannot be opened left, " : ""
        let words =
            "\(name): \(rows.examined) rows looked at, \(rows.sealed) sealed, "
            + unreadable + "\(rows.droppedKeys) older data keys dropped"
        Terminal.say(json ? String(decoding: body, as: UTF8.self) : words)
        return rows.unreadable > 0 ? .incomplete : .sealed
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
