import Foundation
import GRDB
import SluiceClient
import Testing

#if canImport(Glibc)
    import Glibc
#endif

/// A phone in a separate process that is killed at any time, also between SQLite's commit and the next statement.
@Suite(.serialized) struct KilledPhoneTests {
    @Test func `a repeatedly killed phone loses no mutation, and none takes effect twice`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let phone = try await TestPhone(gateway, organization: organization)
        let token = try await gateway.token(organization: organization, user: phone.user)
        let environment = [
            PhoneProcess.file: phone.file.path, PhoneProcess.gateway: gateway.url.absoluteString,
            PhoneProcess.token: token,
        ]
        for _ in 0..<10 {
            let process = try PhoneProcess.start(environment)
            try await process.waitUntilReady()
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...80)))
            process.kill()
        }
        let status = await phone.sync()
        #expect(status.pending == 0 && status.failed == 0 && status.conflicts == 0 && status.lastError == nil)
        // each edit was committed together with its mutation or not at all, and each took effect
        let contacts = try await phone.contacts()
        #expect(contacts.count > 0)
        let (edits, applied) = try await phone.pool.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM contact") ?? 0,
                try Int.fetchOne(db, sql: "SELECT count(*) FROM sluice_mutations WHERE status = 'succeeded'") ?? 0
            )
        }
        #expect(edits == applied)
        let other = try await TestPhone(gateway, organization: organization)
        await other.sync()
        #expect(try await other.contacts().map(\.name) == contacts.map(\.name))
    }

    /// The code of the process until it is killed. It is not a test.
    @Test(.enabled(if: PhoneProcess.isThisOne)) func `runs a phone process`() async throws {
        let (pool, client) = try PhoneProcess.client()
        client.resume()
        FileHandle.standardOutput.write(Data("ready\n".utf8))
        while true {
            try await pool.write { db in
                let contact = Contact(name: UUID().uuidString)
                try contact.insert(db)
                try client.enqueue(.create(contact), in: db)
            }
            try await Task.sleep(for: .milliseconds(2))
        }
    }
}

/// A second instance of this program, as a phone.
private struct PhoneProcess {
    static let file = "SLUICE_TEST_PHONE_FILE"
    static let gateway = "SLUICE_TEST_PHONE_GATEWAY"
    static let token = "SLUICE_TEST_PHONE_TOKEN"

    static var isThisOne: Bool { ProcessInfo.processInfo.environment[file] != nil }

    private let process: Process
    private let output: Pipe

    static func start(_ environment: [String: String]) throws -> PhoneProcess {
        let process = OwnProcess.make("KilledPhoneTests/runs_a_phone_process|runs a phone process", environment)
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        return PhoneProcess(process: process, output: output)
    }

    /// Waits until the process edits and synchronizes.
    func waitUntilReady() async throws {
        var text = ""
        for try await line in output.fileHandleForReading.bytesAsLines {
            text += line
            if line == "ready" { return }
        }
        Issue.record("the phone's process ended: \(text)")
    }

    func kill() {
        Glibc.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    static func client() throws -> (DatabasePool, SluiceClient) {
        let environment = ProcessInfo.processInfo.environment
        let pool = try DatabasePool(path: environment[file] ?? "")
        let token = environment[token] ?? ""
        let client = try SluiceClient(
            database: pool,
            gateway: try #require(URL(string: environment[gateway] ?? "")),
            entities: [Contact.sync, Visit.sync]
        ) { token }
        return (pool, client)
    }
}

extension FileHandle {
    /// The lines of a pipe as they arrive; `bytes` is not available on Linux.
    fileprivate var bytesAsLines: AsyncThrowingStream<String, any Error> {
        AsyncThrowingStream { continuation in
            let thread = Thread {
                var line = ""
                while true {
                    let data = self.availableData
                    if data.isEmpty { return continuation.finish() }
                    for character in String(decoding: data, as: UTF8.self) {
                        if character == "\n" {
                            continuation.yield(line)
                            line = ""
                        } else {
                            line.append(character)
                        }
                    }
                }
            }
            thread.start()
        }
    }
}
