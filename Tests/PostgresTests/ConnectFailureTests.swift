import TestSupport
import Testing

@testable import Postgres

/// Reasons of failed connections, from libpq's texts and from a server.
@Suite struct ConnectFailureTests {
    private static let host = #"connection to server at "db.example" (192.0.2.7), port 5432 failed: "#
    private static let socket = #"connection to server on socket "/run/postgresql/.s.PGSQL.5432" failed: "#

    @Test(arguments: [
        (#"FATAL:  28000: role "anna" does not exist"#, ConnectFailure.roleMissing),
        (#"FATAL:  28000: role "anna" is not permitted to log in"#, .loginForbidden),
        (#"FATAL:  28P01: password authentication failed for user "anna""#, .authentication),
        (#"FATAL:  28000: Peer authentication failed for user "anna""#, .authentication),
        (#"FATAL:  28000: no pg_hba.conf entry for host "192.0.2.9", user "anna", no encryption"#, .notAdmitted),
        (#"FATAL:  28000: Rolle »anna« existiert nicht"#, .roleRefused),
        (#"FATAL:  3D000: database "nowhere" does not exist"#, .databaseMissing),
        (#"FATAL:  42501: permission denied for database "x""#, .databaseClosed),
        ("FATAL:  53300: sorry, too many clients already", .noRoom),
        ("FATAL:  57P03: the database system is starting up", .notReady),
        ("FATAL:  XX000: something else", .refusedByServer),
    ])
    func `classifies a server's refusal by its SQLSTATE`(text: String, failure: ConnectFailure) {
        let report = ConnectFailure.read(Self.host + text + "\nLOCATION:  InitPostgres, postinit.c:1024\n")
        #expect(report.failure == failure)
        let state = text.dropFirst("FATAL:  ".count).prefix(5)
        #expect(report.sqlState == String(state))
        #expect(report.message == Self.host + text.replacing("\(state): ", with: ""))
        #expect(failure.isRefusal)
    }

    @Test(arguments: [
        (host + "Connection refused\n\tIs the server running on that host?", ConnectFailure.connectionRefused),
        (socket + "No such file or directory\n\tIs the server running locally?", .socketMissing),
        (socket + "Connection refused\n\tIs the server running locally?", .connectionRefused),
        (socket + "Permission denied", .socketForbidden),
        (#"could not translate host name "nowhere.invalid" to address: Name or service not known"#, .hostUnknown),
        (host + "No route to host", .hostUnreachable), (host + "timeout expired", .timedOut),
        ("connecting took too long", .timedOut),
        (host + "server does not support SSL, but SSL was required", .encryption),
        (host + "SSL error: certificate verify failed", .encryption),
        (#"root certificate file "/nowhere" does not exist"#, .encryption),
    ])
    func `classifies a failure without a server by its text`(text: String, failure: ConnectFailure) {
        let report = ConnectFailure.read(text)
        #expect(report.failure == failure && report.sqlState == nil)
        #expect(!failure.isRefusal && !report.message.contains("\n") && !report.message.contains("\t"))
    }

    @Test func `a missing password is a refusal`() {
        #expect(ConnectFailure.read(Self.host + "fe_sendauth: no password supplied").failure == .passwordMissing)
        #expect(ConnectFailure.read("something new").failure == nil)
    }

    @Test func `with several hosts, the failure is the one that a server reported`() {
        let text = Self.host + "Connection refused\n" + Self.socket + #"FATAL:  3D000: database "x" does not exist"#
        #expect(ConnectFailure.read(text).failure == .databaseMissing)
    }

    @Test(.onOneServer("creates roles on one server")) func `distinguishes a real server's refusals`() async throws {
        let database = try await TestDatabase.make()
        func failure(_ uri: String) async -> PostgresError? {
            do {
                let connection = try await Connection.open(ConnectionConfiguration(uri: uri))
                await connection.closeAndWait()
                return nil
            } catch {
                return error
            }
        }
        let role = try #require(await failure(database.uri(user: "nobody_of_this_name")))
        #expect(role.connectFailure == .roleMissing && role.kind == .unavailable, "\(role)")
        #expect(role.message.contains(#"role "nobody_of_this_name" does not exist (SQLSTATE 28000)"#), "\(role)")
        #expect(!role.message.contains("LOCATION"))
        let missing = try await TestCluster.shared().uri(database: "no_such_database")
        #expect(await failure(missing)?.connectFailure == .databaseMissing)
        #expect(await failure("postgresql:///x?host=/nowhere")?.connectFailure == .socketMissing)
        #expect(await failure("postgresql://127.0.0.1:1/x")?.connectFailure == .connectionRefused)
        #expect(await failure("postgresql://nowhere.invalid/x")?.connectFailure == .hostUnknown)
        // after connecting, errors have their usual form
        let connection = try await database.connect()
        let error = await #expect(throws: PostgresError.self) { try await connection.execute(script: "SELECT 1/0") }
        #expect(error?.message == "division by zero")
        await connection.closeAndWait()
    }
}
