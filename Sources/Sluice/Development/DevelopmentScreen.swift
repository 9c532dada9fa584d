import CommandSupport
import JSONText
import SyncHTTP

/// The output of `sluice dev` after it has started to listen: all commands for a first try, ready to be pasted.
enum DevelopmentScreen {
    static func text(
        public address: ListenAddress,
        operations: ListenAddress,
        token: String,
        operatorToken: String,
        directory: DevelopmentDirectory,
        databaseURI: String
    ) -> String {
        """

        Sluice \(Version.current) is running with a private database. Ctrl-C stops both; the data is kept.

          API         http://\(address)/v1
          Console     http://\(operations)/console  sign in with \(operatorToken)
          Operations  http://\(operations)/readyz  /metrics  /admin (token: \(directory.file("operator-token")))
          Database    psql \(quoted(databaseURI))

        Paste this into another terminal. First, the token of user \(DemoTenant.builtIn.user.lowercased)
        of organization Demo, valid for \(DemoTenant.tokenSeconds / 86_400) days:

        export TOKEN=\(quoted(token))

        Then three mutations that a phone collected offline. The activity refers to its contact by the phone's
        client id, the expense to its activity; the response has the server's ids. Run it again: nothing is
        applied twice, and the response contains "replayed":true.

        curl -sS -w '\\n' 'http://\(address)/v1/mutations' -H "Authorization: Bearer $TOKEN" \\
          -H 'Content-Type: application/json' --data \(quoted(DemoPush.text))

        The changes that other devices receive:

        curl -sS -w '\\n' 'http://\(address)/v1/changes' -H "Authorization: Bearer $TOKEN"

        """
    }

    /// A text in single quotes, so that a shell does not interpret it.
    static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }
}

/// The output line of a step that takes a moment. The beginning of the line is printed before the step, and the rest
/// after the step.
struct ProgressLine {
    private let started = ContinuousClock.now

    init(_ what: String) {
        Terminal.output("  \(what) …", terminator: "")
    }

    func done() {
        let tenths = (ContinuousClock.now - started) / .milliseconds(100)
        Terminal.output(" \(Int(tenths) / 10).\(Int(tenths) % 10) s")
    }

    /// Prints the line of a step. If `body` throws, the line is not completed.
    static func during<Value>(_ what: String, _ body: () async throws -> Value) async throws -> Value {
        let line = ProgressLine(what)
        do {
            let value = try await body()
            line.done()
            return value
        } catch {
            Terminal.output("")
            throw error
        }
    }
}

/// A push for a first try. All ids are fixed, so that a push that is pasted twice is the same push.
enum DemoPush {
    /// The push of a device that was offline.
    ///
    /// It creates a contact, an activity with this contact, and an expense of this activity. The three entities refer
    /// to each other by client ids. The text contains no quotes that a shell would interpret.
    static let text = """
        {
          "device_id": "\(DemoTenant.id(0xde_71, 0x01).lowercased)",
          "mutations": [
            {"id": "\(id(1))", "idempotency_key": "\(key(1))", "sequence_number": 1,
             "operation": "create", "entity_type": "contact", "local_id": "\(contact)",
             "payload": {"name": "Kari Nordmann", "phone": "+47 22 00 00 00"},
             "created_at": "2026-01-15T08:00:00.000Z"},
            {"id": "\(id(2))", "idempotency_key": "\(key(2))", "sequence_number": 2,
             "operation": "create", "entity_type": "activity", "local_id": "\(activity)",
             "payload": {"title": "Visit", "contact_id": "\(contact)"},
             "created_at": "2026-01-15T08:05:00.000Z"},
            {"id": "\(id(3))", "idempotency_key": "\(key(3))", "sequence_number": 3,
             "operation": "create", "entity_type": "expense", "local_id": "\(expense)",
             "payload": {"text": "Lunch", "amount": 249.90, "activity_id": "\(activity)"},
             "dependency_ids": ["\(activity)"],
             "created_at": "2026-01-15T12:30:00.000Z"}
          ]
        }
        """

    private static let contact = DemoTenant.id(0xc0, 0x01).lowercased
    private static let activity = DemoTenant.id(0xac, 0x01).lowercased
    private static let expense = DemoTenant.id(0xe0, 0x01).lowercased

    private static func id(_ number: UInt8) -> String { DemoTenant.id(0x1d, number).lowercased }

    private static func key(_ number: UInt8) -> String { DemoTenant.id(0xd0, number, version: 4).lowercased }
}
