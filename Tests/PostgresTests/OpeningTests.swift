import Postgres
import TestSupport
import Testing

@Suite(.serialized) struct OpeningTests {
    @Test(arguments: [
        "postgresql:///x?host=/nowhere&user=a&password=hunter2",
        "postgresql://a:hunter2@127.0.0.1:1/x",
        "postgresql://a:hunter2@127.0.0.1:port/x",
        "postgresql://a:hunter2@[::1/x",
        "host password=hunter2 =",
    ])
    func `an unreachable server or a malformed URI is unavailable, and the password stays secret`(
        uri: String
    ) async throws {
        let error = await failure { _ = try await Connection.open(ConnectionConfiguration(uri: uri)) }
        #expect(error?.kind == .unavailable)
        #expect(error?.description.contains("hunter2") == false)
    }

    @Test func `refuses a URI whose address leaves no choice of a server`() async {
        var configuration = ConnectionConfiguration(uri: "postgresql://a:hunter2@x/x?hostaddr=127.0.0.1")
        configuration.server = ServerAddress(host: "127.0.0.1", port: 1, identity: "meant")
        let error = await failure { _ = try await Connection.open(configuration) }
        #expect(error?.message == "hostaddr in the connection URI leaves no choice of a server")
    }

    @Test func `a refused setting fails the opening`() async throws {
        let database = try await TestDatabase.make()
        let error = await failure { _ = try await database.connect(settings: [("no_such_setting", "1")]) }
        #expect(error?.sqlState == "42704")
    }

    @Test func `refuses a read-only session unless the URI accepts it`() async throws {
        let database = try await TestDatabase.make()
        let uri = database.uri + "&options=-c%20default_transaction_read_only%3Don"
        let error = await failure { _ = try await Connection.open(ConnectionConfiguration(uri: uri)) }
        #expect(error?.kind == .unavailable)
        #expect(error?.isOfReadOnlyServer == true, "\(error?.message ?? "")")
        let any = uri + "&target_session_attrs=any"
        let connection = try await Connection.open(ConnectionConfiguration(uri: any))
        #expect(!connection.isReadOnly)
        let refusal = await failure { _ = try await connection.run(query("CREATE TABLE x ()")) }
        #expect(refusal?.sqlState == "25006")
        #expect(!connection.isUsable, "the session of a server that cannot write is dropped")
    }

    @Test func `a session reports that its server became read-only`() async throws {
        let database = try await TestDatabase.make()
        let connection = try await Connection.open(ConnectionConfiguration(uri: database.uri))
        #expect(!connection.isReadOnly)
        _ = try await connection.run(query("SET default_transaction_read_only = on"))
        #expect(connection.isReadOnly && connection.isUsable)
        _ = try await connection.run(query("SET default_transaction_read_only = off"))
        #expect(!connection.isReadOnly)
    }

    @Test func `gives up on a silent server after the time-out`() async throws {
        let cluster = try await TestCluster.dedicated()
        try await cluster.freeze(true)
        let start = ContinuousClock.now
        let configuration = ConnectionConfiguration(uri: cluster.uri(), connectTimeout: .milliseconds(200))
        let error = await failure { _ = try await Connection.open(configuration) }
        #expect(error?.kind == .unavailable)
        #expect(ContinuousClock.now - start < .seconds(60), "the server never answers")
        let task = Task { await failure { _ = try await Connection.open(ConnectionConfiguration(uri: cluster.uri())) } }
        try await Task.sleep(for: .milliseconds(50))
        task.cancel()
        #expect(await task.value?.kind == .cancelled)
        try await cluster.freeze(false)
        await cluster.close()
    }
}
