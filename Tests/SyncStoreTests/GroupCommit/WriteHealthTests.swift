import GroupCommit
import Postgres
import Testing

@Suite struct WriteHealthTests {
    private static let full = PostgresError(.server(sqlState: "53100"), "no space left on device")
    private static let lost = PostgresError(.connectionLost, "the connection was closed")
    private let start = ContinuousClock.now

    @Test func `a writer that never failed is healthy and ready for its first probe`() {
        var health = WriteHealth()
        #expect(health.writeFailure(at: start) == nil)
        #expect(health.isProbeDue(at: start))
        health.committed(at: start)
        #expect(!health.isProbeDue(at: start + .seconds(9)))
        #expect(health.isProbeDue(at: start + .seconds(10)))
    }

    @Test func `a writer that has not written since the start is not ready after its first failure`() {
        var health = WriteHealth()
        health.failed(Self.lost, at: start)
        #expect(health.writeFailure(at: start) == Self.lost)
        #expect(!health.hasWritten)
        health.probed(at: start + .seconds(1))
        health.failed(Self.lost, at: start + .seconds(2))
        #expect(health.writeFailure(at: start + .seconds(2)) == nil)
        #expect(health.hasWritten)
    }

    @Test func `a failure counts after three seconds without a commit`() {
        var health = WriteHealth()
        health.committed(at: start)
        health.failed(Self.lost, at: start)
        #expect(health.writeFailure(at: start + .seconds(2)) == nil)
        health.failed(Self.lost, at: start + .seconds(2))
        #expect(health.writeFailure(at: start + .seconds(3)) == Self.lost)
        #expect(health.isProbeDue(at: start + .seconds(3)))
        health.probed(at: start + .seconds(4))
        #expect(health.writeFailure(at: start + .seconds(60)) == nil)
    }

    @Test func `for thirty seconds after a lack of resources, a probe does not make the writer healthy`() {
        var health = WriteHealth()
        health.failed(Self.full, at: start)
        health.probed(at: start + .seconds(29))
        #expect(health.writeFailure(at: start + .seconds(29)) == Self.full)
        health.probed(at: start + .seconds(30))
        #expect(health.writeFailure(at: start + .seconds(30)) == nil)
    }

    @Test func `a commit ends every failure`() {
        var health = WriteHealth()
        health.failed(Self.full, at: start)
        health.committed(at: start + .seconds(5))
        #expect(health.writeFailure(at: start + .seconds(5)) == nil)
    }

    @Test(arguments: ["23505", "25P03", "40001", "53400", "55P03", "57014", "22003"])
    func `an error of one job does not count as an error of the database`(sqlState: String) {
        var health = WriteHealth()
        health.failed(PostgresError(.server(sqlState: sqlState), ""), at: start)
        health.failed(PostgresError(.poolExhausted, ""), at: start)
        health.failed(PostgresError(.timedOut, ""), at: start)
        #expect(health.writeFailure(at: start + .seconds(60)) == nil)
    }

    @Test(arguments: [
        "08006", "25006", "25P04", "53000", "53100", "53200", "53300", "57P01", "57P02", "57P03", "57P04",
        "57P05", "58000", "58030",
    ])
    func `a server that accepts no writes is unavailable`(sqlState: String) {
        let error = PostgresError(.server(sqlState: sqlState), "")
        #expect(error.isUnavailable)
        #expect(WriteHealth.counts(error))
    }

    @Test func `after commits that are not replicated, the writer is not ready for thirty seconds`() {
        let unreplicated = PostgresError(.unreplicated, "")
        var health = WriteHealth()
        health.failed(unreplicated, at: start)
        // a commit without changes waits for no standby
        health.committed(at: start + .seconds(1))
        health.failed(unreplicated, at: start + .seconds(5))
        health.probed(at: start + .seconds(6))
        health.committed(at: start + .seconds(34))
        #expect(health.writeFailure(at: start + .seconds(34)) == unreplicated)
        health.committed(at: start + .seconds(35))
        #expect(health.writeFailure(at: start + .seconds(35)) == nil)
    }

    @Test(arguments: ["42501", "42P01", "XX001", "XX002"])
    func `refusals that no job can cause count like a lack of resources`(sqlState: String) {
        let error = PostgresError(.server(sqlState: sqlState), "")
        var health = WriteHealth()
        health.failed(error, at: start)
        health.probed(at: start + .seconds(29))
        #expect(health.writeFailure(at: start + .seconds(29)) == error)
        health.probed(at: start + .seconds(30))
        #expect(health.writeFailure(at: start + .seconds(30)) == nil)
    }

    /// A server without transaction ids left reports 54000, which a single job may cause as well.
    @Test func `a refused job makes a probe due, and every failed probe counts`() {
        let wraparound = PostgresError(.server(sqlState: "54000"), "")
        var health = WriteHealth()
        health.committed(at: start)
        health.failed(wraparound, at: start)
        #expect(health.writeFailure(at: start + .seconds(60)) == nil)
        #expect(health.isProbeDue(at: start + .seconds(1)))
        health.failedProbe(wraparound, at: start + .seconds(1))
        health.failedProbe(wraparound, at: start + .seconds(3))
        #expect(health.writeFailure(at: start + .seconds(4)) == wraparound)
        health.probed(at: start + .seconds(5))
        #expect(health.writeFailure(at: start + .seconds(60)) == nil)
        #expect(!health.isProbeDue(at: start + .seconds(10)))
    }

    @Test func `distinguishes recovery by the message from other errors with the same codes`() {
        let recovering = PostgresError(.server(sqlState: "55000"), "recovery is in progress")
        let serializable = PostgresError(.server(sqlState: "0A000"), "cannot use serializable mode in a hot standby")
        #expect(recovering.isOfReadOnlyServer && serializable.isOfReadOnlyServer)
        #expect(!PostgresError(.server(sqlState: "55000"), "the slot is gone").isUnavailable)
        #expect(!PostgresError(.server(sqlState: "0A000"), "cached plan must not change result type").isUnavailable)
    }
}
