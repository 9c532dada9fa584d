import Foundation
import Testing

@testable import SluiceClient

/// The client behaves as `docs/client-vectors` requires of every client.
@Suite struct VectorTests {
    @Test(arguments: Vector.all) func `the client passes a vector`(_ vector: Vector) async throws {
        let script = VectorScript()
        let server = try VectorServer { script.answer($0) }
        defer { server.stop() }
        let phone = try VectorPhone(vector.json, gateway: server.url)
        defer { phone.erase() }
        script.attach(phone)
        for (index, step) in try vector.json.list("steps").enumerated() {
            do {
                try await run(step, phone, script)
            } catch {
                Issue.record("\(vector.name), step \(index + 1): \(error)")
                return
            }
        }
    }

    @Test func `there are vectors and each describes its purpose`() throws {
        #expect(!Vector.all.isEmpty)
        for vector in Vector.all {
            #expect(vector.json["shows"]?.string?.hasSuffix(".") ?? false, "\(vector.name)")
            #expect(vector.json["name"]?.string.map { "\($0).json" } == vector.name)
        }
    }

    private func run(_ step: JSON, _ phone: VectorPhone, _ script: VectorScript) async throws {
        if let moment = step["clock"]?.string { try phone.set(clock: moment) }
        if step["launch"] != nil { try phone.launch() }
        if let edit = step["edit"] {
            let id = try phone.edit(try script.filled(edit.without("as")))
            if let name = edit["as"] {
                try script.bind(name.string ?? "$any", to: id.map { .string($0.wire) } ?? .null)
            } else if let id {
                throw Vector.Failure("the edit should make no mutation, but made \(id.wire)")
            }
        }
        if step["subscribe"] != nil || step["unsubscribe"] != nil {
            let client = try phone.client
            try await client.subscribe(to: step.list("subscribe").compactMap(\.string))
            try await client.unsubscribe(from: step.list("unsubscribe").compactMap(\.string))
        }
        if let decision = step["decide"] { try await decide(try script.filled(decision), phone) }
        if step["sync"] != nil {
            script.begin(try step.list("sync"))
            let start = ContinuousClock.now
            let pause = try await phone.synchronize()
            // the pause began during the synchronization
            let elapsed = (ContinuousClock.now - start).seconds
            try script.end()
            if let least = step["pause_at_least"]?.double, pause + elapsed < least {
                throw Vector.Failure("the next request should come after \(least) s, but comes after \(pause) s")
            }
        }
        if let expected = step["then"] { try script.compare(expected, try phone.state(expected)) }
    }

    private func decide(_ decision: JSON, _ phone: VectorPhone) async throws {
        guard decision["refused"] == true else { return try await phone.decide(decision) }
        do {
            try await phone.decide(decision)
        } catch is SluiceError {
            return
        }
        throw Vector.Failure("the decision should be refused")
    }
}
