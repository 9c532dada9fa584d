import JSONText
import SyncHTTP

/// The output of `sluice dev` once it listens: everything needed to try it, ready to be pasted.
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

        Sluice \(Version.current) is up, with a database of its own. Ctrl-C ends both; the data stay.

          API         http://\(address)/v1
          Console     http://\(operations)/console  sign in with \(operatorToken)
          Operations  http://\(operations)/readyz  /metrics  /admin (token: \(directory.file("operator-token")))
          Database    psql \(quoted(databaseURI))

        Paste this into another terminal. First, who you are: user \(DemoTenant.builtIn.user.lowercased)
        of organization Demo, for \(DemoTenant.tokenSeconds / 86_400) days.

        export TOKEN=\(quoted(token))

        Then three mutations that a phone has gathered offline. The activity names its contact by the id that
        the phone made up, the expense its activity; the answer has the server's ids. Paste it twice: the second
        time nothing happens again, and the answer says "replayed":true.

        curl -sS -w '\\n' 'http://\(address)/v1/mutations' -H "Authorization: Bearer $TOKEN" \\
          -H 'Content-Type: application/json' --data \(quoted(DemoPush.text))

        What other devices get to see:

        curl -sS -w '\\n' 'http://\(address)/v1/changes' -H "Authorization: Bearer $TOKEN"

        """
    }

    /// In single quotes, so that a shell takes it literally.
    static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }
}
