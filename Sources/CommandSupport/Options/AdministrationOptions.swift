package import ArgumentParser
package import FoundationEssentials
import Glibc
package import JSONText
import SyncHTTP
package import SyncModel
package import SyncStore

/// Options of the commands that work on the database.
package struct AdministrationOptions: ParsableArguments {
    @Flag(help: "Print JSON instead of text.")
    package var json = false

    @Option(
        help: ArgumentHelp(
            "Reason for the audit log, up to 500 bytes. Only commands that change or export data record it.",
            valueName: "text"
        )
    )
    package var reason: String?

    @OptionGroup package var options: ConfigurationOptions

    package init() {}

    package func validate() throws {
        guard let reason, AuditReason.reading(reason) == nil else { return }
        throw ValidationError("--reason must be 1 to \(AuditReason.maximumBytes) bytes without control characters.")
    }

    /// Ends the command if the settings have no master key for wrapping data keys.
    package func requireMasterKey() async throws {
        let settings = try await options.load()
        guard settings.masterKeys?.wrapping == nil else { return }
        let variable = Setting.masterKeyFile.variable
        let reason =
            settings.masterKeys == nil
            ? "\(variable) is not set, so no master key wraps data keys"
            : "the first line of the file that \(variable) names is '-', so no master key wraps data keys"
        throw Terminal.failure(reason, Terminal.badConfiguration)
    }

    /// Runs a read-only action on the database, and closes the store. If the action fails, prints the problem and ends
    /// the command.
    package func run<Value: Sendable>(
        _ body: (Administration) async throws(Problem) -> Value
    ) async throws -> Value {
        try await withStore { store, _ throws(Problem) -> Value in try await body(store.administration) }
    }

    /// Runs an act on the database like ``withStore(_:orElse:result:recording:_:)``, but does not pass the settings to
    /// `body`.
    package func run<Value: Sendable>(
        _ act: CommandAct,
        orElse nothing: CommandFailure,
        result: (Value) -> ActResult = { _ in .whole },
        recording: (Value, inout AuditOutcome) -> Void = { _, _ in },
        _ body: (Administration) async throws(Problem) -> Value?
    ) async throws -> Value {
        try await withStore(act, orElse: nothing, result: result, recording: recording) {
            store,
            _ throws(Problem) -> Value? in
            try await body(store.administration)
        }
    }

    /// Runs an act on the database with the settings, and closes the store. If the act fails, prints the problem and
    /// ends the command.
    ///
    /// If `body` returns nil, the audit log and the terminal get the failure `nothing`.
    ///
    /// - Parameters:
    ///   - act: the act as recorded in the audit log; nil if nothing changes.
    ///   - nothing: the failure if `body` returns nil, because the object of the act does not exist.
    ///   - result: returns how completely the act was done.
    ///   - recording: adds further results to the audit record.
    package func withStore<Value: Sendable>(
        _ act: CommandAct?,
        orElse nothing: CommandFailure,
        result: (Value) -> ActResult = { _ in .whole },
        recording: (Value, inout AuditOutcome) -> Void = { _, _ in },
        _ body: (Store, Settings) async throws(Problem) -> Value?
    ) async throws -> Value {
        let value = try await withStore { store, settings throws(Problem) -> Value? in
            guard let act else { return try await body(store, settings) }
            let note = { (value: Value?, outcome: inout AuditOutcome) in
                (value.map(result) ?? .failed(nothing.code)).record(in: &outcome)
                if let value { recording(value, &outcome) }
            }
            return try await audited(act, note, store) { () throws(Problem) -> Value? in
                try await body(store, settings)
            }
        }
        guard let value else { throw nothing.failure() }
        return value
    }

    /// Runs a read-only action on the database with the settings, and closes the store. If the action fails, prints the
    /// problem and ends the command.
    package func withStore<Value: Sendable>(
        _ body: (Store, Settings) async throws(Problem) -> Value
    ) async throws -> Value {
        let settings = try await options.load()
        try await requireSchema(settings)
        let store = settings.commandStore()
        do throws(Problem) {
            let value = try await body(store, settings)
            await store.close()
            return value
        } catch {
            await store.close()
            if error.isLocked {
                let explanation = "the organization's data cannot be decrypted with the keys of"
                let advice = "\(Setting.masterKeyFile.variable) (see: sluice doctor)"
                throw Terminal.failure("\(explanation) \(advice)", Terminal.badConfiguration)
            }
            let code = [.storeUnavailable, .overloaded].contains(error.code) ? Terminal.unavailable : .failure
            let errors = error.shownErrors
            throw Terminal.failure(errors.isEmpty ? error.detail : errors.joined(separator: "; "), code)
        }
    }

    private func audited<Value: Sendable>(
        _ act: CommandAct,
        _ note: (Value?, inout AuditOutcome) -> Void,
        _ store: Store,
        _ body: () async throws(Problem) -> Value?
    ) async throws(Problem) -> Value? {
        let log = store.audit
        let mark = try await log.begin(act.act(reason: reason))
        var outcome = AuditOutcome()
        do throws(Problem) {
            let value = try await body()
            note(value, &outcome)
            await log.end(mark, outcome)
            return value
        } catch {
            ActResult.failed(error.code).record(in: &outcome)
            await log.end(mark, outcome)
            throw error
        }
    }

    /// Ends the command with a reason if the database cannot be used, so that no statement fails with an SQL error.
    private func requireSchema(_ settings: Settings) async throws {
        let finding = await SchemaCheck.check(at: settings.databaseURL)
        switch finding {
        case .ready: return
        case .shared: throw Terminal.failure(finding.userMessage, Terminal.badConfiguration)
        case .empty, .behind: throw Terminal.failure(finding.userMessage)
        case .unfit: throw Terminal.failure(finding.userMessage + settings.databaseHint)
        case .unreachable: throw Terminal.failure(finding.userMessage + settings.databaseHint, Terminal.unavailable)
        }
    }

    /// Requests an id as the confirmation of a deletion. Without a terminal or with `--json`, ends the command.
    package func requireConfirmation(_ consequence: String, of id: UUID) throws {
        guard !json, isatty(STDIN_FILENO) == 1 else { throw Terminal.failure("\(consequence); confirm with --yes") }
        Terminal.printError(consequence)
        Terminal.draw("Type the id to confirm: ")
        guard readLine().flatMap({ UUID(parsing: $0) }) == id else {
            throw Terminal.failure("not confirmed; nothing was deleted")
        }
    }

    /// Prints the result: as JSON if requested, otherwise as text.
    package func output(_ json: [UInt8], _ text: String) {
        Terminal.output(self.json ? String(decoding: json, as: UTF8.self) : text)
    }

    package func output(_ text: String, _ members: (inout JSONWriter) -> Void) {
        output(Self.body(members), text)
    }

    /// Prints a list as one JSON object with a single member, if JSON is requested.
    ///
    /// - Returns: whether JSON is requested. If it is not, the caller prints the list as text.
    package func outputJSON<Element>(
        _ name: StaticString,
        _ elements: [Element],
        _ members: (Element, inout JSONWriter) -> Void
    ) -> Bool {
        guard json else { return false }
        let body = Self.body { writer in
            writer.member(name, elements) { writer, element in writer.object { members(element, &$0) } }
        }
        Terminal.output(String(decoding: body, as: UTF8.self))
        return true
    }

    /// Returns all organizations, ordered by id.
    package static func organizations(_ administration: Administration) async throws(Problem) -> [OrganizationRow] {
        var organizations: [OrganizationRow] = []
        var last: UUID?
        repeat {
            let page = try await administration.organizations(limit: 1_000, after: last)
            organizations += page.organizations
            last = page.next
        } while last != nil
        return organizations
    }

    package static func unknown(_ id: UUID) -> any Error { CommandFailure.noOrganization(id).failure() }

    package static func body(_ members: (inout JSONWriter) -> Void) -> [UInt8] {
        JSONWriter.object(members)
    }
}
