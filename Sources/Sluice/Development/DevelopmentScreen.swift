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

/// The output line of a step that takes a moment. The line begins before the step and ends after it.
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
